//! Where workspaces start: a commit of the repository here, or of one that was named by URL, at the state
//! that its remote has now.

use super::UpArgs;
use crate::cli::clone::{self, Asked, ByUrl};
use crate::cli::origin::{Origin, StartArgs};
use crate::cli::send::SharedRefs;
use crate::cli::user_checkout::Checkout;
use crate::cli::work::recover;
use crate::cli::{Context, connect, settings};
use holm_api::client::Client;
use holm_core::Fault;
use holm_core::clone_url::{CloneFrom, CloneUrl};
use holm_git::Cancel;

/// What every one of the workspaces starts from.
pub struct Start {
    pub client: Client,
    pub checkout: Checkout,
    pub start: StartArgs,
    pub origin: Origin,
    pub refs: SharedRefs,
}

// === impl Start ===

impl Start {
    pub async fn find(
        context: &Context,
        arguments: &UpArgs,
        cancel: &Cancel,
    ) -> Result<Self, Fault> {
        // What is wrong with the checkout is said first, whatever the daemon does.
        let (checkout, client) = match &arguments.url {
            None => {
                let (checkout, client) = tokio::join!(Checkout::find(), connect::started());
                (checkout?, client?)
            }
            Some(url) => {
                let url = CloneUrl::parse(url)?;
                let client = connect::started().await?;
                let asked = Asked {
                    url,
                    name: None,
                    from: CloneFrom::of(arguments.elsewhere),
                };
                let found = clone::find(context, &asked, cancel).await?;
                let mut start = arguments.start.clone();
                start.from = found.start(context, &client, arguments, cancel).await?;
                return Self::at(context, client, found.checkout, start).await;
            }
        };
        let mut start = arguments.start.clone();
        if arguments.of_project && !start.dirty && checkout.repository.url.is_some() {
            let found = ByUrl {
                checkout,
                is_new: false,
            };
            start.from = found.start(context, &client, arguments, cancel).await?;
            return Self::at(context, client, found.checkout, start).await;
        }
        if start.dirty || arguments.warm {
            settings::settle(context, &client, &checkout).await?;
        }
        Self::at(context, client, checkout, start).await
    }

    async fn at(
        context: &Context,
        client: Client,
        checkout: Checkout,
        start: StartArgs,
    ) -> Result<Self, Fault> {
        settings::settle_partial(context, &client, &checkout).await?;
        if start.dirty {
            recover(context, &checkout).await?;
        }
        let origin = Origin::find(&checkout, &start);
        let (origin, refs) = tokio::try_join!(origin, SharedRefs::of(&checkout))?;
        Ok(Self {
            client,
            checkout,
            start,
            origin,
            refs,
        })
    }
}

// === impl ByUrl ===

impl ByUrl {
    /// What a workspace of it starts from: a branch of the remote, as it is now. A live workspace that is
    /// only to be returned needs no remote.
    async fn start(
        &self,
        context: &Context,
        client: &Client,
        arguments: &UpArgs,
        cancel: &Cancel,
    ) -> Result<Option<String>, Fault> {
        let newest = match self.is_new {
            true => self.checkout.repository.origin_head(),
            false if is_live(client, &self.checkout, arguments).await? => return Ok(None),
            false => clone::refresh(context, client, &self.checkout, cancel).await?,
        };
        match &arguments.start.from {
            None => Ok(newest),
            Some(name) => clone::meant(&self.checkout, name).await.map(Some),
        }
    }
}

/// Whether the label is that of a live workspace, which `up` returns.
async fn is_live(client: &Client, checkout: &Checkout, arguments: &UpArgs) -> Result<bool, Fault> {
    let (Some(label), Some(id)) = (&arguments.label, &checkout.repository.project_id) else {
        return Ok(false);
    };
    if !arguments.start.is_default() || arguments.count.is_some() {
        return Ok(false);
    }
    let names = client.names().await?.names;
    let mut names = names.iter();
    Ok(names.any(|name| name.project_id == id.as_str() && name.label == *label))
}
