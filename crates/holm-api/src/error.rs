//! The error body, the same for the CLI (`--json`), HTTP and MCP.

use holm_core::{Code, Fault};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    pub error: ErrorDetail,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ErrorDetail {
    pub code: String,
    pub message: String,
    pub hint: String,
}

// === impl ErrorBody ===

impl From<&Fault> for ErrorBody {
    fn from(fault: &Fault) -> Self {
        Self {
            error: ErrorDetail {
                code: fault.code.as_str().to_owned(),
                message: fault.message(),
                hint: fault.hint.clone(),
            },
        }
    }
}

impl From<ErrorBody> for Fault {
    /// An error code that only a newer daemon knows stays visible in the message.
    fn from(body: ErrorBody) -> Self {
        let ErrorDetail {
            code,
            message,
            hint,
        } = body.error;
        match Code::parse(&code) {
            Some(code) => Fault::new(code, message, hint),
            None => Fault::new(Code::Internal, format!("{message} ({code})"), hint),
        }
    }
}
