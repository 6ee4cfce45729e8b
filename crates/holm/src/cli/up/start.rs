//! What workspaces start from: a commit of the current repository, or of one named by URL, at its
//! remote's current state.

use super::UpArgs;
use crate::cli::clone::{self, ByUrl, CloneRequest};
use crate::cli::origin::{Origin, StartArgs};
use crate::cli::send::SharedRefs;
use crate::cli::user_checkout::Checkout;
use crate::cli::work::recover;
use crate::cli::{Context, connect, settings};
use holm_api::client::Client;
use holm_core::Fault;
use holm_core::clone_url::{CloneFrom, CloneUrl};
use holm_git::Cancel;

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
        // Problems with the checkout are reported first, whatever the daemon does.
        let (checkout, client) = match &arguments.url {
            None => {
                let (checkout, client) =
                    tokio::join!(Checkout::find(), connect::found_or_started());
                (checkout?, client?.0)
            }
            Some(url) => {
                let url = CloneUrl::parse(url)?;
                let client = connect::started().await?;
                let asked = CloneRequest {
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
        let (origin, refs) = if start.from.is_some() {
            let refs = SharedRefs::of(&checkout);
            tokio::try_join!(Origin::find(&checkout, &start), refs)?
        } else {
            let refs = SharedRefs::with_answer(&client, &checkout).await?;
            let origin = Origin::find_with(&checkout, &start, refs.files());
            (origin.await?, refs)
        };
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
    /// The start of a workspace: a branch of the remote, after a fetch. An existing workspace that
    /// is only returned needs no remote.
    async fn start(
        &self,
        context: &Context,
        client: &Client,
        arguments: &UpArgs,
        cancel: &Cancel,
    ) -> Result<Option<String>, Fault> {
        let newest = if self.is_new {
            self.checkout.repository.origin_head()
        } else if is_live(client, &self.checkout, arguments).await? {
            return Ok(None);
        } else {
            clone::refresh(context, client, &self.checkout, cancel).await?
        };
        match &arguments.start.from {
            None => Ok(newest),
            Some(name) => clone::resolve_name(&self.checkout, name).await.map(Some),
        }
    }
}

/// Whether a live workspace has the label, which `up` returns.
async fn is_live(client: &Client, checkout: &Checkout, arguments: &UpArgs) -> Result<bool, Fault> {
    let ([label], Some(id)) = (arguments.labels.as_slice(), &checkout.repository.project_id) else {
        return Ok(false);
    };
    if !arguments.start.is_default() || arguments.count.is_some() {
        return Ok(false);
    }
    let names = client.names().await?.names;
    let mut names = names.iter();
    Ok(names.any(|name| name.project_id == *id && name.label == *label))
}
