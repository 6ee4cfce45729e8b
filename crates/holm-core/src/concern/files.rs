//! Files that a program executes or obeys although the user does not name them.
//!
//! **Belongs here:** a file whose content a program executes or obeys by itself when a person opens
//! the folder, enters it with a shell, uses git, starts an agent or a console in it, asks a package
//! manager or a compiler for something else, or pushes (continuous integration).
//!
//! **Does not:** source code, and files that run only when a person types their command:
//! `Makefile`, `Procfile`, bundler configurations. Dependency manifests (`package.json`,
//! `Cargo.toml`, `Gemfile`, `build.gradle`, `pyproject.toml`) change in every second task; people
//! would confirm them without reading. Files that only choose a version (`.nvmrc`,
//! `.python-version`, `.tool-versions`) and `.editorconfig` run nothing.
//!
//! **Patterns** are in lower case, because some file systems fold case. `*` matches any characters
//! of one name. A pattern applies in every directory; with a leading `/`, only at the root. A
//! trailing `/` means a directory with everything in it.

use super::Kind;

/// Patterns that share a kind and a reason.
pub(super) struct Row {
    pub kind: Kind,
    /// Shown after the file's name.
    pub reason: &'static str,
    pub patterns: &'static [&'static str],
}

/// One row for each kind and reason, with its patterns.
macro_rules! rows {
    ($($kind:ident $reason:literal: $($pattern:literal)+;)+) => {
        &[$(Row {
            kind: Kind::$kind,
            reason: $reason,
            patterns: &[$($pattern),+],
        }),+]
    };
}

/// The first row that matches a path gives the reason.
pub(super) const ROWS: &[Row] = rows! {
    // git itself
    Git "tells git which filters and merge drivers to run": ".gitattributes";
    Git "tells git where to fetch submodules from": ".gitmodules";
    Git "tells git-lfs where to fetch files from": ".lfsconfig";
    Git "git obeys it where the repository's settings include it": ".gitconfig" ".gitconfig.*";
    // git hooks and their managers
    Hook "git hooks run it":
        ".husky/" ".githooks/" ".git-hooks/" ".git_hooks/" "githooks/" "git-hooks/" ".hooks/"
        ".cargo-husky/" ".lefthook/" ".lefthook-local/" ".huskyrc*" "husky.config.*"
        ".pre-commit-config.y*ml" ".pre-commit-hooks.y*ml" "prek.toml" "lefthook.*" ".lefthook.*"
        "lefthook-local.*" ".lefthook-local.*" ".overcommit.y*ml" "captainhook.json"
        ".captainhook.json" "simple-git-hooks.*" ".simple-git-hooks.*" ".rusty-hook.toml"
        "grumphp.y*ml*" "hk.pkl" ".lintstagedrc*" "lint-staged.config.*" "commitlint.config.*"
        ".commitlintrc*" ".gitlint";
    // agents: instructions, settings, tools
    Agent "coding agents obey it":
        "claude.md" "claude.local.md" "agents.md" "agents.override.md" "agent.md" "gemini.md"
        "qwen.md" "codex.md" "warp.md" "crush.md" "replit.md" "skill.md" ".cursorrules"
        ".cursorignore" ".windsurfrules" ".clinerules*" ".roorules*" ".roomodes" ".goosehints"
        ".rules" ".voidrules" ".aider*" ".github/copilot-instructions.md" ".github/instructions/"
        ".github/prompts/" ".github/chatmodes/" ".github/agents/" ".github/skills/"
        ".aiassistant/" ".junie/";
    Agent "coding agents take commands, hooks and tools from it":
        ".mcp.json" "mcp.json" ".mcp.y*ml" ".mcp/" ".claude/" ".claude-plugin/" ".agents/"
        ".agent/" ".codex/" ".cursor/" ".gemini/" ".qwen/" ".windsurf/" ".codeium/" ".continue/"
        ".continuerc*" ".roo/" ".cline/" ".clinerules/" ".kilocode/" ".opencode/" "opencode.json*"
        ".crush/" "crush.json" ".crush.json" ".goose/" ".amp/" ".augment/" ".amazonq/" ".kiro/"
        ".trae/" ".factory/" ".tabnine/" ".openhands/" ".devin/" ".copilot/" ".zencoder/" ".qodo/"
        ".serena/" "codebuff.json" ".github/hooks/";
    // editors
    Editor "editors take tasks and settings from it when the folder opens":
        ".vscode/" "*.code-workspace" ".idea/" ".fleet/" ".zed/" ".vs/" ".nova/" ".helix/"
        "*.sublime-project" "*.sublime-workspace" ".externaltoolbuilders/" ".luarc.json*"
        "cmakepresets.json" "cmakeuserpresets.json";
    Editor "editors run it when a file of the folder opens":
        ".exrc" "_exrc" ".vimrc" "_vimrc" ".gvimrc" ".nvimrc" ".nvim.lua" ".lvimrc" ".local.vimrc"
        ".vim/" ".nvim/" ".dir-locals.el" ".dir-locals-2.el" ".ycm_extra_conf.py"
        "eslint.config.*" ".eslintrc*" "prettier.config.*" ".prettierrc.*js" ".prettierrc.ts"
        "stylelint.config.*" ".stylelintrc.*js" "jest.config.*" "vitest.config.*"
        "vitest.workspace.*" "playwright.config.*" ".rubocop*.yml" ".solargraph.yml" ".pylintrc"
        "pylintrc" "pylintrc.toml" "mypy.ini" ".mypy.ini" ".flake8" ".php-cs-fixer*.php"
        ".php_cs*";
    Container "editors build and run it when the folder opens":
        ".devcontainer/" ".devcontainer*" "devcontainer.json" ".gitpod.y*ml" ".gitpod.dockerfile"
        ".ona/" ".codesandbox/" ".stackblitzrc" ".replit" "replit.nix" ".idx/" "devfile.y*ml"
        ".devfile.y*ml";
    Container "`docker compose` adds it by itself":
        "docker-compose.override.y*ml" "compose.override.y*ml";
    // shells, environments, consoles
    Shell "shells run it when they enter the folder":
        ".envrc" ".envrc.*" ".direnv/" ".direnvrc" "mise.toml" ".mise.toml" "mise.*.toml"
        ".mise.*.toml" ".mise/" "mise/config*.toml" ".config/mise*" ".config/mise/" ".rtx.toml"
        ".autoenv*" ".shadowenv.d/" ".smartcd/" "devbox.json" "devenv.nix" "devenv.yaml" ".flox/"
        "flake.nix" "shell.nix" "default.nix";
    Shell "shells run it where the folder is, or is linked from, a home":
        ".bashrc" ".bash_profile" ".bash_login" ".bash_logout" ".bash_aliases" ".profile" ".zshrc"
        ".zshenv" ".zprofile" ".zlogin" ".zlogout" ".config/fish/" ".xprofile" ".xinitrc";
    Shell "consoles and debuggers run it when they start here":
        ".irbrc" ".pryrc" ".pdbrc" ".gdbinit" ".lldbinit" ".rprofile" ".renviron" ".ghci"
        ".iex.exs" ".octaverc" "startup.m";
    // package managers
    Package "says where packages come from, and which of their scripts run":
        ".npmrc" ".yarnrc" ".yarnrc.*" "pnpm-workspace.y*ml" "bunfig.toml" ".bunfig.toml"
        ".pypirc" "pip.conf" "pip.ini" "uv.toml" "poetry.toml" ".condarc" ".gemrc" ".bundle/"
        "nuget.config" ".mvn/" "gradle.properties";
    Package "package managers run it":
        ".yarn/" ".pnpmfile.*" ".pnp.*" "setup.py" "hatch_build.py" "mvnw" "mvnw.cmd" "gradlew"
        "gradlew.bat" "gradle/wrapper/" "gradle/init.d/" "init.gradle*" "settings.gradle*"
        "buildsrc/";
    Package "every Python that starts here may run it":
        "sitecustomize.py" "usercustomize.py" "*.pth";
    Build "pytest runs it, and so do editors that look for tests": "conftest.py";
    // compilers and build tools
    Build "compilers and build tools run it, or programs that it names":
        ".cargo/" "build.rs" "rust-toolchain" "rust-toolchain.toml" ".config/nextest.toml"
        ".bazelrc" "*.bazelrc" ".bazelversion" ".bazeliskrc" "tools/bazel" ".buckconfig*"
        "pants.toml" ".pants.rc" ".sbtopts" ".jvmopts" "directory.build.*" "msbuild.rsp";
    Build "make reads it instead of the Makefile": "gnumakefile";
    // continuous integration and deployment
    Ci "continuous integration runs it":
        ".github/workflows/" ".github/actions/" "/action.y*ml" ".gitea/workflows/"
        ".gitea/actions/" ".forgejo/workflows/" ".forgejo/actions/" ".gitlab-ci.y*ml"
        "*.gitlab-ci.y*ml" ".gitlab/ci/" ".circleci/" "azure-pipelines*.y*ml" ".azure-pipelines/"
        ".azuredevops/" "azure-pipelines/" ".pipelines/" "bitbucket-pipelines.y*ml" "jenkinsfile*"
        "*.jenkinsfile" ".jenkins/" ".drone.*" ".woodpecker.y*ml" ".woodpecker/" ".travis.y*ml"
        ".buildkite/" "buildkite.y*ml" "appveyor.y*ml" ".appveyor.y*ml" ".teamcity/" ".tekton/"
        ".semaphore/" "codefresh.y*ml" ".codefresh/" ".cirrus.*" "codemagic.y*ml" "bitrise.y*ml"
        "buildspec*.y*ml" "cloudbuild*.y*ml" ".builds/" ".build.yml" "screwdriver.y*ml"
        ".harness/" "wercker.y*ml" "shippable.yml" "dangerfile*" ".goreleaser.y*ml" ".zuul.y*ml"
        ".zuul.d/" ".concourse/" ".argo/";
    Ci "hosting services build and deploy by it":
        "netlify.toml" "vercel.json" "amplify.y*ml" "heroku.yml";
};
