//! What a move of the tree asks of services.

use super::connect::client;
use holm_core::Fault;
use holm_core::moves::Reaction;
use holm_core::service::Wish;
use holm_core::spec::WorkspaceSpec;
use holm_keeper::directories::WorkspaceDirs;
use holm_keeper::wire::CodeSeen;

/// Lets the services react to the workspace's move.
pub async fn react(dirs: &WorkspaceDirs, spec: &WorkspaceSpec) -> Result<(), Fault> {
    let code = CodeSeen {
        reference: spec.code.ref_name.clone(),
        commit: spec.code.commit.clone(),
    };
    client(dirs).react(wishes(spec), code).await
}

fn wishes(spec: &WorkspaceSpec) -> Vec<(String, Wish)> {
    let reactions = spec.moving.iter().flat_map(|moving| &moving.owed.reactions);
    let wishes = reactions.filter_map(|(name, reaction)| {
        let wish = match reaction {
            Reaction::None | Reaction::Hot => return None,
            Reaction::Restart => Wish::Restart,
            Reaction::Rebuild => Wish::Rebuild,
        };
        Some((name.clone(), wish))
    });
    wishes.collect()
}

/// Services whose build is outdated after a move.
pub fn unbuilt(spec: &WorkspaceSpec) -> Vec<String> {
    let wishes = wishes(spec).into_iter();
    let unbuilt = wishes.filter(|(_, wish)| *wish == Wish::Rebuild);
    unbuilt.map(|(name, _)| name).collect()
}
