//! Repositories in common shapes, and the whole file that `holm init` writes for each. The expected files are
//! beside this one; `UPDATE_DOCS=1 cargo nextest run -p holm-config shapes` rewrites them, and a person reads
//! the difference.

use super::{checkout, proposed_in};
use std::path::Path;

/// The checkout of a shape: each file begins with a line `=== path`.
fn files(text: &str) -> Vec<(&str, &str)> {
    let files = text.split("=== ").skip(1);
    files
        .map(|file| file.split_once('\n').unwrap_or((file, "")))
        .map(|(path, content)| (path.trim(), content))
        .collect()
}

#[track_caller]
fn check(shape: &str, current: &str) {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/look/tests/shapes");
    let source = shape.split('@').next().unwrap();
    let text = std::fs::read_to_string(place.join(format!("{source}.files"))).unwrap();
    let directory = checkout(&files(&text));
    let (proposal, _) = proposed_in(directory.path(), current);
    let written = proposal.to_toml();
    let file = place.join(format!("{shape}.toml"));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, &written).unwrap();
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(
        written,
        expected,
        "{shape}: UPDATE_DOCS=1 rewrites {}",
        file.display()
    );
    // Nothing is listed twice, once active and once commented.
    for service in &proposal.services {
        let is_same = |other: &&holm_core::detect::Service| other.name == service.name;
        assert!(
            proposal.suggestions.iter().find(is_same).is_none(),
            "{}",
            service.name
        );
    }
}

macro_rules! shapes {
    ($($test:ident $shape:literal $current:literal;)*) => {
        $(#[test]
        fn $test() {
            check($shape, $current);
        })*
    };
}

shapes! {
    django_postgres "django" "";
    next_prisma "next" "";
    vite_spa "vite" "";
    webpack_spa "webpack" "";
    express_redis "express" "";
    express_of_nx "nx" "";
    pnpm_monorepo "pnpm" "";
    turbo_monorepo "turbo" "";
    turbo_monorepo_from_a_package "turbo@api" "apps/api";
    rails_procfile "rails" "";
    go_api "go" "";
    rust_workspace "rust" "";
    fastapi_sqlalchemy "fastapi" "";
    frontend_and_backend "two" "";
    mern "mern" "";
    dev_container "devcontainer" "";
    compose_collection "collection" "";
    a_directory_of_a_compose_collection "collection@dir" "nginx-flask";
    one_of_a_compose_collection "collection@nginx-flask" "nginx-flask/web";
}
