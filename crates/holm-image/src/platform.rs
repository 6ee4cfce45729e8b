//! Which image of an index fits this machine.

use serde::Deserialize;
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Platform {
    pub os: String,
    pub architecture: String,
    pub variant: Option<String>,
}

// === impl Platform ===

impl Platform {
    /// The platform of this machine, in the words of the OCI specification.
    pub fn host() -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            "x86" => "386",
            "powerpc64" => "ppc64le",
            other => other,
        };
        Self {
            os: "linux".to_owned(),
            architecture: architecture.to_owned(),
            variant: None,
        }
    }

    /// Whether an image for `image` runs here. A variant counts only if both sides name it; arm64 has one variant.
    pub fn runs(&self, image: &Self) -> bool {
        let is_variant_fitting = match (self.variant(), image.variant()) {
            (Some(own), Some(other)) => own == other,
            _ => true,
        };
        self.os == image.os && self.architecture == image.architecture && is_variant_fitting
    }

    fn variant(&self) -> Option<&str> {
        let variant = self.variant.as_deref();
        variant.filter(|variant| !(self.architecture == "arm64" && *variant == "v8"))
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.os, self.architecture)?;
        match &self.variant {
            Some(variant) => write!(formatter, "/{variant}"),
            None => Ok(()),
        }
    }
}
