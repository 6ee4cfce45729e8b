//! The network that this machine is in, from `[network]` of the user's settings. Read at every start of a
//! workspace, so that a change counts from `holm restart` on.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use holm_config::paths::Paths;
use holm_config::user;
use holm_core::config::ProxyUrl;
use holm_core::{Code, Fault};
use holm_keeper::plan::{NetworkSource, Proxy, SurroundingNetwork};
use holm_secrets::{InvalidValue, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub fn source(paths: &Paths) -> NetworkSource {
    let settings = paths.config_file.clone();
    Arc::new(move || read(&settings))
}

fn read(settings: &Path) -> Result<SurroundingNetwork, Fault> {
    let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from);
    let network = user::load(settings, &home)?.network;
    let proxy = network.proxy.as_ref().map(proxy).transpose();
    Ok(SurroundingNetwork {
        proxy: proxy.map_err(|error| {
            let message = "the user of `[network] proxy` in config.toml cannot be used";
            Fault::new(Code::InvalidConfig, message, "write it as `user:password`").because(error)
        })?,
        no_proxy: network.no_proxy.iter().map(ToString::to_string).collect(),
        ca: network.authorities()?,
    })
}

fn proxy(url: &ProxyUrl) -> Result<Proxy, InvalidValue> {
    let authorization = url.user.as_ref().map(|user| {
        let encoded = STANDARD.encode(user);
        Value::parse(format!("Basic {encoded}").into_bytes())
    });
    Ok(Proxy {
        host: url.host.clone(),
        port: url.port.get(),
        authorization: authorization.transpose()?,
    })
}
