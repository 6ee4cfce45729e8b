//! Files of a workspace: listed, read, written, deleted, searched, brought and taken as tar.

use super::Client;
use super::routes::chunks_of;
use super::transport::{full, not_json, whole};
use crate::files::{FileDone, FileEntry, FileList, FileMatches};
use bytes::Bytes;
use holm_core::{Fault, WorkspaceId};
use hyper::Method;
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use tokio::io::AsyncRead;

/// A part of a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileRange {
    pub offset: u64,
    /// `None`: to the end.
    pub length: Option<u64>,
    pub secrets: Secrets,
}

/// How the workspace's secrets come, if a file has some of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Secrets {
    #[default]
    AsTheyAre,
    /// A star for every byte.
    Masked,
}

/// How a file is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileWrite {
    /// `None`: as the file that is replaced, or 0644.
    pub mode: Option<u32>,
    /// Make the directories on the way.
    pub parents: bool,
}

/// How much a deletion takes.
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
    /// Not text but a regular expression.
    pub regex: bool,
    pub limit: Option<usize>,
}

// === impl Client ===

impl Client {
    /// A page of a directory: the first entries behind the name `after`.
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
            route.push_str(&format!("&after={}", encoded(after)));
        }
        self.transport.plain(Method::GET, &route).await
    }

    /// What is at a path; of a link the link itself.
    pub async fn stat_file(&self, id: &WorkspaceId, path: &[u8]) -> Result<FileEntry, Fault> {
        let route = route(id, "/stat", path);
        self.transport.plain(Method::GET, &route).await
    }

    /// A file's bytes, piece by piece; `false` of `take` ends it.
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

    /// Replaces a file in one step, or makes it.
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
        let sent = self.transport.send(Method::PUT, &route, full(content));
        let (response, connection) = sent.await?;
        let answer = whole(response).await?;
        self.transport.keep(connection);
        serde_json::from_slice(&answer).map_err(not_json)
    }

    /// Deletes a file, a link (not what it leads to) or a directory.
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

    /// Looks for text in the files below a directory.
    pub async fn search_files(
        &self,
        id: &WorkspaceId,
        path: &[u8],
        search: &FileSearch,
    ) -> Result<FileMatches, Fault> {
        let mut route = route(id, "/search", path);
        let pattern = encoded(search.pattern.as_bytes());
        route.push_str(&format!("&pattern={pattern}&regex={}", search.regex));
        if let Some(limit) = search.limit {
            route.push_str(&format!("&limit={limit}"));
        }
        self.transport.plain(Method::GET, &route).await
    }

    /// A directory as a tar archive, piece by piece; `false` of `take` ends it.
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

    /// Lays a tar archive out in a directory.
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
        let (response, connection) = self.transport.send(Method::PUT, &route, body).await?;
        let answer = whole(response).await?;
        self.transport.keep(connection);
        serde_json::from_slice(&answer).map_err(not_json)
    }
}

fn route(id: &WorkspaceId, below: &str, path: &[u8]) -> String {
    format!("/workspaces/{id}/files{below}?path={}", encoded(path))
}

fn encoded(bytes: &[u8]) -> String {
    percent_encode(bytes, NON_ALPHANUMERIC).to_string()
}
