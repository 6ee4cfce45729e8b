//! Tools for files of a workspace. The daemon handles them inside; paths are not interpreted here.

use super::arguments::wrong;
use super::{Call, value_of};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use holm_api::client::{FileRange, FileWrite, Secrets};
use holm_core::{Fault, cut};
use serde_json::{Value, json};

/// The most bytes that one call reads.
const MOST_BYTES: u64 = 256 << 10;
/// The default and the maximum of directory entries.
const MOST_ENTRIES: u64 = 1000;

// === impl Call ===

impl Call<'_> {
    pub async fn file_list(&self) -> Result<Value, Fault> {
        let id = self.workspace().await?;
        let path = self.arguments.text("path").unwrap_or(".").as_bytes();
        let after = self.arguments.text("after").map(str::as_bytes);
        let limit = self.arguments.number("limit").unwrap_or(MOST_ENTRIES);
        let limit = limit.clamp(1, MOST_ENTRIES) as usize;
        value_of(&self.client.list_files(&id, path, after, limit).await?)
    }

    pub async fn file_read(&self) -> Result<Value, Fault> {
        let id = self.workspace().await?;
        let path = self.arguments.needed("path")?;
        let offset = self.arguments.number("offset").unwrap_or(0);
        let length = self.arguments.number("length").unwrap_or(MOST_BYTES);
        let length = length.min(MOST_BYTES);
        // One more, to know whether there is more.
        let range = FileRange {
            offset,
            length: Some(length + 1),
            // A model's provider sees what a model is shown, so secrets are masked.
            secrets: Secrets::Masked,
        };
        let mut content = Vec::new();
        let take = |piece: &[u8]| {
            content.extend_from_slice(piece);
            true
        };
        self.client
            .read_file(&id, path.as_bytes(), range, take)
            .await?;
        let more = content.len() as u64 > length;
        // A page of a text is valid text, even when its limit is in the middle of a character.
        let length = cut::beginning(&content, length as usize).len();
        content.truncate(length);
        let (content, encoding) = match String::from_utf8(content) {
            Ok(text) => (text, "utf-8"),
            Err(error) => (STANDARD.encode(error.as_bytes()), "base64"),
        };
        Ok(json!({
            "path": path,
            "content": content,
            "encoding": encoding,
            "offset": offset,
            "length": length,
            "more": more,
        }))
    }

    pub async fn file_write(&self) -> Result<Value, Fault> {
        let id = self.workspace().await?;
        let path = self.arguments.needed("path")?;
        let content = self.arguments.needed("content")?;
        let content = match self.arguments.text("encoding") {
            None | Some("utf-8") => content.as_bytes().to_vec(),
            Some("base64") => STANDARD
                .decode(content)
                .map_err(|error| wrong("`content` is not base64".to_owned()).because(error))?,
            Some(_) => return Err(wrong("`encoding` is \"utf-8\" or \"base64\"".to_owned())),
        };
        let write = FileWrite {
            mode: self.arguments.is_set("executable").then_some(0o755),
            parents: true,
        };
        let content = Bytes::from(content);
        let written = self.client.write_file(&id, path.as_bytes(), write, content);
        value_of(&written.await?)
    }
}
