//! Files of a workspace: list, read, write, delete, search, upload and download as tar.

use super::Client;
use super::query::escaped;
use super::routes::chunks_of;
use super::transport::full;
use crate::files::{FileDone, FileEntry, FileList, FileMatches};
use bytes::Bytes;
use holm_core::{Fault, WorkspaceId};
use hyper::Method;
use tokio::io::AsyncRead;

/// A part of a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileRange {
    pub offset: u64,
    /// `None`: to the end.
    pub length: Option<u64>,
    pub secrets: Secrets,
}

/// How secrets of the workspace appear in a file's content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Secrets {
    #[default]
    AsTheyAre,
    /// With a star for every byte.
    Masked,
}

/// Options for writing a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileWrite {
    /// `None`: the mode of the replaced file, or 0644.
    pub mode: Option<u32>,
    /// Create missing parent directories.
    pub parents: bool,
}

/// What a deletion may remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileDeletion {
    /// A file or an empty directory.
    One,
    Recursive,
}

/// What is looked for.
#[derive(Clone, Debug, Default)]
pub struct FileSearch {
    pub pattern: String,
    /// Treat the pattern as a regular expression.
    pub regex: bool,
    pub limit: Option<usize>,
}

// === impl Client ===

impl Client {
    /// A page of a directory: the first entries after the name `after`.
    pub async fn list_files(
        &self,
        id: &WorkspaceId,
        path: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<FileList, Fault> {
        let mut route = route(id, "", path);
        route.push_str(&format!("&limit={limit}"));
        if let Some(after) = after {
            route.push_str(&format!("&after={}", escaped(after)));
        }
        self.transport.plain(Method::GET, &route).await
    }

    /// Metadata of a path; of a symlink, the link itself.
    pub async fn stat_file(&self, id: &WorkspaceId, path: &[u8]) -> Result<FileEntry, Fault> {
        let route = route(id, "/stat", path);
        self.transport.plain(Method::GET, &route).await
    }

    /// Streams a file's bytes to `take`, until it returns `false`.
    pub async fn read_file(
        &self,
        id: &WorkspaceId,
        path: &[u8],
        range: FileRange,
        take: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), Fault> {
        let mut route = route(id, "", path);
        route.push_str(&format!("&offset={}", range.offset));
        if let Some(length) = range.length {
            route.push_str(&format!("&length={length}"));
        }
        if range.secrets == Secrets::Masked {
            route.push_str("&mask=true");
        }
        self.transport.pieces(&route, take).await
    }

    /// Creates or replaces a file atomically.
    pub async fn write_file(
        &self,
        id: &WorkspaceId,
        path: &[u8],
        write: FileWrite,
        content: Bytes,
    ) -> Result<FileEntry, Fault> {
        let mut route = route(id, "", path);
        route.push_str(&format!("&parents={}", write.parents));
        if let Some(mode) = write.mode {
            route.push_str(&format!("&mode={mode:o}"));
        }
        let body = full(content);
        self.transport.streamed(Method::PUT, &route, body).await
    }

    /// Deletes a file, a symlink (not its target) or a directory.
    pub async fn delete_file(
        &self,
        id: &WorkspaceId,
        path: &[u8],
        deletion: FileDeletion,
    ) -> Result<FileDone, Fault> {
        let mut route = route(id, "", path);
        let is_recursive = deletion == FileDeletion::Recursive;
        route.push_str(&format!("&recursive={is_recursive}"));
        self.transport.plain(Method::DELETE, &route).await
    }

    /// Searches the files below a directory.
    pub async fn search_files(
        &self,
        id: &WorkspaceId,
        path: &[u8],
        search: &FileSearch,
    ) -> Result<FileMatches, Fault> {
        let mut route = route(id, "/search", path);
        let pattern = escaped(search.pattern.as_bytes());
        route.push_str(&format!("&pattern={pattern}&regex={}", search.regex));
        if let Some(limit) = search.limit {
            route.push_str(&format!("&limit={limit}"));
        }
        self.transport.plain(Method::GET, &route).await
    }

    /// Streams a directory as a tar archive to `take`, until it returns `false`.
    pub async fn download_files(
        &self,
        id: &WorkspaceId,
        path: &[u8],
        take: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), Fault> {
        self.transport
            .pieces(&route(id, "/archive", path), take)
            .await
    }

    /// Unpacks a tar archive into a directory.
    pub async fn upload_files<R>(
        &self,
        id: &WorkspaceId,
        path: &[u8],
        archive: R,
    ) -> Result<FileDone, Fault>
    where
        R: AsyncRead + Send + Unpin + 'static,
    {
        let route = route(id, "/archive", path);
        let body = chunks_of(archive);
        self.transport.streamed(Method::PUT, &route, body).await
    }
}

fn route(id: &WorkspaceId, below: &str, path: &[u8]) -> String {
    format!("/workspaces/{id}/files{below}?path={}", escaped(path))
}
