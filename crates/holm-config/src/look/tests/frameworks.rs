//! Projects of one language or framework, several in one repository, and none.

use super::{check, checkout, proposed};
use holm_core::config::ProjectConfig;

#[test]
fn nothing_is_invented() {
    let check_empty = |files: &[(&str, &str)]| {
        check(files, &[]);
        let directory = checkout(files);
        let (proposal, config) = proposed(directory.path());
        assert_eq!(config, ProjectConfig::default());
        assert!(proposal.is_empty() && proposal.in_one_line().is_none());
        assert_eq!(proposal.in_short(), None);
    };
    check_empty(&[]);
    check_empty(&[
        ("README.md", "npm run dev"),
        ("src/thing.c", "int main() {}"),
    ]);
    check_empty(&[("manage.py", "print('nothing of a framework')")]);
    check_empty(&[("tests/package.json", "{\"scripts\":{\"dev\":\"vite\"}}")]);
    check_empty(&[(
        "node_modules/x/package.json",
        "{\"scripts\":{\"dev\":\"vite\"}}",
    )]);
    check_empty(&[
        ("Dockerfile", "FROM postgres"),
        (".github/workflows/ci.yml", "on: push"),
    ]);
}

#[test]
fn node() {
    // Vite with npm.
    check(
        &[
            (
                "package.json",
                r#"{"name":"shop","scripts":{"dev":"vite","build":"tsc && vite build"},"devDependencies":{"vite":"^5"}}"#,
            ),
            ("package-lock.json", "{}"),
            (
                "vite.config.ts",
                "export default defineConfig({ plugins: [vue()] })",
            ),
        ],
        &[
            "looks like Node: package.json",
            "setup npm ci",
            "service web:5173 = npm run dev",
        ],
    );
    // Vite with a port of its own, and pnpm.
    check(
        &[
            (
                "package.json",
                r#"{"scripts":{"dev":"vite --host"},"dependencies":{}}"#,
            ),
            ("pnpm-lock.yaml", ""),
            (
                "vite.config.js",
                "export default { server: { port: 3100 } }",
            ),
        ],
        &[
            "looks like Node: package.json",
            "setup pnpm install --frozen-lockfile",
            "service web:3100 = pnpm run dev",
        ],
    );
    // Next with yarn, new and old, and a port in the script.
    let next =
        r#"{"scripts":{"dev":"next dev","start":"next start"},"dependencies":{"next":"14"}}"#;
    check(
        &[
            ("package.json", next),
            ("yarn.lock", ""),
            (".yarnrc.yml", ""),
        ],
        &[
            "looks like Node: package.json",
            "setup yarn install --immutable",
            "service web:3000 = yarn run dev",
        ],
    );
    check(
        &[
            (
                "package.json",
                &next.replace("next dev", "next dev -p 3210"),
            ),
            ("yarn.lock", ""),
        ],
        &[
            "looks like Node: package.json",
            "setup yarn install --frozen-lockfile",
            "service web:3210 = yarn run dev",
        ],
    );
    // Create React App, by its variable; bun by `packageManager`.
    check(
        &[(
            "package.json",
            r#"{"packageManager":"bun@1.1.0","scripts":{"start":"PORT=3006 react-scripts start"},"dependencies":{"react":"18"}}"#,
        )],
        &[
            "looks like Node: package.json",
            "setup bun install",
            "service web:3006 = bun run start",
        ],
    );
    // Express: the port is in the source.
    check(
        &[
            (
                "package.json",
                r#"{"scripts":{"start":"node src/server.js","dev":"npm run watch","watch":"nodemon src/server.js"},"dependencies":{"express":"4"}}"#,
            ),
            (
                "src/server.js",
                "const port = process.env.PORT || 4000;\napp.listen(port);\n",
            ),
        ],
        &[
            "looks like Node: package.json",
            "setup npm install",
            "service web:4000 = npm run dev",
        ],
    );
    // No file shows the port, and nothing has to be installed.
    check(
        &[("package.json", r#"{"scripts":{"start":"node ."}}"#)],
        &["looks like Node: package.json", "service web = npm start"],
    );
    // A library.
    check(
        &[
            (
                "package.json",
                r#"{"scripts":{"test":"vitest"},"devDependencies":{"vitest":"1"}}"#,
            ),
            ("package-lock.json", "{}"),
        ],
        &[
            "looks like Node: package.json",
            "setup npm ci",
            "note package.json has no script that starts it (dev, develop, start:dev, serve, start)",
        ],
    );
}

#[test]
fn node_monorepos() {
    let web = ("apps/web/package.json", r#"{"scripts":{"dev":"next dev"}}"#);
    let api = (
        "apps/api/package.json",
        r#"{"scripts":{"dev":"tsx watch src/index.ts"}}"#,
    );
    let ui = ("packages/ui/package.json", r#"{"scripts":{"build":"tsc"}}"#);
    let root = r#"{"workspaces":["apps/*","packages/*"],"scripts":{"dev":"turbo run dev"}}"#;
    // The root's script starts everything: those with a port are services of their own.
    check(
        &[
            ("package.json", root),
            ("package-lock.json", "{}"),
            web,
            api,
            ui,
        ],
        &[
            "looks like Node: package.json",
            "setup npm ci",
            "service web:3000 = cd apps/web && npm run dev",
            "maybe api = cd apps/api && npm run dev",
            "note package.json: \"dev\": \"turbo run dev\" starts them together; here each is a service",
            "note package.json has workspaces: apps/api, apps/web, packages/ui",
        ],
    );
    // There is none.
    check(
        &[
            ("package.json", r#"{"private":true}"#),
            (
                "pnpm-workspace.yaml",
                "packages:\n  - 'apps/*'\n  - packages/ui\n",
            ),
            ("pnpm-lock.yaml", ""),
            ("apps/api/src/index.ts", "app.listen(4000)"),
            web,
            api,
            ui,
        ],
        &[
            "looks like Node: package.json",
            "setup pnpm install --frozen-lockfile",
            "service api:4000 = cd apps/api && pnpm run dev",
            "service web:3000 = cd apps/web && pnpm run dev",
            "note package.json has workspaces: apps/api, apps/web, packages/ui",
        ],
    );
    // Only one can be started.
    check(
        &[
            (
                "package.json",
                r#"{"workspaces":{"packages":["./apps/web","packages/*"]}}"#,
            ),
            web,
            ui,
        ],
        &[
            "looks like Node: package.json",
            "setup npm install",
            "service web:3000 = cd apps/web && npm run dev",
            "note package.json has workspaces: apps/web, packages/ui",
        ],
    );
}

#[test]
fn python_and_ruby() {
    let manage = (
        "manage.py",
        "from django.core.management import execute_from_command_line\n",
    );
    check(
        &[manage, ("requirements.txt", "django\n")],
        &[
            "looks like Django: manage.py",
            "setup python3 -m venv .venv",
            "setup .venv/bin/pip install -r requirements.txt",
            "service web:8000 = .venv/bin/python manage.py migrate --noinput && .venv/bin/python manage.py runserver 8000",
        ],
    );
    // A list that is not found by its name is an input of the set-up.
    check(
        &[manage, ("requirements/local.txt", "django\n")],
        &[
            "looks like Django: manage.py",
            "setup python3 -m venv .venv",
            "setup .venv/bin/pip install -r requirements/local.txt",
            "inputs requirements/local.txt",
            "service web:8000 = .venv/bin/python manage.py migrate --noinput && .venv/bin/python manage.py runserver 8000",
        ],
    );
    check(
        &[
            manage,
            ("pyproject.toml", "[project]\nname = \"x\"\n"),
            ("uv.lock", ""),
        ],
        &[
            "looks like Django: manage.py",
            "setup uv sync",
            "service web:8000 = uv run python manage.py migrate --noinput && uv run python manage.py runserver 8000",
        ],
    );
    check(
        &[
            manage,
            ("poetry.lock", ""),
            ("pyproject.toml", "[tool.poetry]\n"),
        ],
        &[
            "looks like Django: manage.py",
            "setup poetry install",
            "service web:8000 = poetry run python manage.py migrate --noinput && poetry run python manage.py runserver 8000",
        ],
    );
    check(
        &[(
            "pyproject.toml",
            "[project]\nname = \"x\"\ndependencies = [\"requests\"]\n",
        )],
        &[
            "looks like Python: pyproject.toml",
            "setup python3 -m venv .venv",
            "setup .venv/bin/pip install -e .",
            "note pyproject.toml does not say how the program is started",
        ],
    );
    let gemfile = (
        "Gemfile",
        "source 'https://rubygems.example.org'\ngem \"rails\", \"~> 7.1\"\n",
    );
    check(
        &[
            gemfile,
            ("Gemfile.lock", ""),
            ("bin/rails", "#!/usr/bin/env ruby"),
        ],
        &[
            "looks like Rails: Gemfile",
            "setup bundle install",
            "service web:3000 = bin/rails db:prepare && bin/rails server",
        ],
    );
    check(
        &[("Gemfile", "gem 'railsish'\n")],
        &[
            "looks like Ruby: Gemfile",
            "setup bundle install",
            "note Gemfile does not say how the program is started",
        ],
    );
}

#[test]
fn go_and_rust() {
    let server = "package main\nfunc main() { http.ListenAndServe(\":8080\", nil) }\n";
    check(
        &[
            ("go.mod", "module example.org/x\n"),
            ("go.sum", ""),
            ("main.go", server),
        ],
        &[
            "looks like Go: go.mod",
            "setup go mod download",
            "service web:8080 = go run .",
        ],
    );
    check(
        &[
            ("go.mod", "module example.org/x\n"),
            ("cmd/api/main.go", server),
            ("cmd/tool/main.go", "package main\nfunc main() {}\n"),
        ],
        &[
            "looks like Go: go.mod",
            "service api:8080 = go run ./cmd/api",
        ],
    );
    check(
        &[
            ("go.mod", "module example.org/x\n"),
            ("main.go", "package main\nfunc main() {}\n"),
        ],
        &["looks like Go: go.mod", "maybe web = go run ."],
    );
    check(
        &[
            (
                "Cargo.toml",
                "[package]\nname = \"shop\"\n[dependencies]\naxum = \"0.8\"\n",
            ),
            ("Cargo.lock", ""),
            ("src/main.rs", "TcpListener::bind(\"0.0.0.0:3000\")"),
        ],
        &[
            "looks like Rust: Cargo.toml",
            "setup cargo fetch --locked",
            "service web:3000 = cargo run",
        ],
    );
    check(
        &[
            (
                "Cargo.toml",
                "[package]\nname = \"rip_grep\"\n[dependencies]\nregex = \"1\"\n",
            ),
            ("src/main.rs", "fn main() {}"),
        ],
        &["looks like Rust: Cargo.toml", "maybe rip-grep = cargo run"],
    );
    // A library, and a workspace.
    check(
        &[
            ("Cargo.toml", "[package]\nname = \"x\"\n"),
            ("src/lib.rs", ""),
        ],
        &["looks like Rust: Cargo.toml"],
    );
    check(
        &[
            (
                "Cargo.toml",
                "[workspace]\nmembers = [\"crates/*\", \"server\"]\n",
            ),
            ("server/Cargo.toml", "[package]\nname = \"server\"\n"),
            ("server/src/main.rs", "fn main() {}"),
        ],
        &[
            "looks like Rust: Cargo.toml",
            "note Cargo.toml is a workspace of crates/*, server; which program to run was not decided",
        ],
    );
}

#[test]
fn procfiles() {
    check(
        &[
            (
                "Procfile",
                "# how it runs\nweb: bundle exec puma -p ${PORT:-3000}\nworker: sidekiq\nrelease: rake db:migrate\nnonsense\n",
            ),
            ("Gemfile", "gem 'puma'\n"),
        ],
        &[
            "looks like Ruby: Gemfile",
            "looks like Procfile: Procfile",
            "setup bundle install",
            "service web:3000 = bundle exec puma -p ${PORT:-3000}",
            "service worker = sidekiq",
            "maybe release = rake db:migrate",
            "note Gemfile does not say how the program is started",
            "note line 5 of Procfile was not understood",
        ],
    );
    // The development file wins over the framework's default.
    check(
        &[
            ("Procfile", "web: puma"),
            (
                "Procfile.dev",
                "web: bin/rails server\njs: yarn build --watch\nmy_api: ./api --port $PORT\n",
            ),
            ("Gemfile", "gem 'rails'\n"),
            ("bin/rails", ""),
        ],
        &[
            "looks like Rails: Gemfile",
            "looks like Procfile: Procfile.dev",
            "setup bundle install",
            "service web:3000 = bin/rails db:prepare && bin/rails server",
            "service js = yarn build --watch",
            "service my-api:5200 = ./api --port $PORT PORT=5200",
            "note `bin/rails server` was left aside: Procfile.dev says what runs",
        ],
    );
}

#[test]
fn several_projects_in_one_repository() {
    let front = (
        "frontend/package.json",
        r#"{"scripts":{"dev":"vite"},"dependencies":{}}"#,
    );
    let back = ("back end/manage.py", "import django");
    check(
        &[
            front,
            ("frontend/package-lock.json", "{}"),
            back,
            ("back end/requirements.txt", ""),
        ],
        &[
            "looks like Django: back end/manage.py",
            "looks like Node: frontend/package.json",
            "setup cd 'back end' && python3 -m venv .venv",
            "setup cd 'back end' && .venv/bin/pip install -r requirements.txt",
            "setup cd frontend && npm ci",
            "service back-end:8000 = cd 'back end' && .venv/bin/python manage.py migrate --noinput && .venv/bin/python manage.py runserver 8000",
            "service frontend:5173 = cd frontend && npm run dev",
        ],
    );
    // The one in the root is the project, and a frontend belongs to it; others are mentioned.
    check(
        &[
            front,
            ("manage.py", "import django"),
            ("tools/package.json", r#"{"scripts":{"dev":"vite"}}"#),
        ],
        &[
            "looks like Django: manage.py",
            "looks like Node: frontend/package.json",
            "setup cd frontend && npm install",
            "service web:8000 = python3 manage.py migrate --noinput && python3 manage.py runserver 8000",
            "service frontend:5173 = cd frontend && npm run dev",
            "note tools/ looks like a project of its own (Node)",
        ],
    );
    // Two in the root run side by side.
    check(
        &[
            ("manage.py", "import django"),
            ("package.json", r#"{"scripts":{"dev":"vite"}}"#),
        ],
        &[
            "looks like Django: manage.py",
            "looks like Node: package.json",
            "service web:8000 = python3 manage.py migrate --noinput && python3 manage.py runserver 8000",
            "service node:5173 = npm run dev",
        ],
    );
}
