//! Downloads one blob: continues what is there, follows redirects without credentials, and verifies.

use super::http::{Address, Answer, RequestError, get};
use super::{Note, PullError, Source};
use crate::blob::{BlobError, BlobWriter};
use crate::document::Descriptor;
use crate::store::Writing;
use hyper::StatusCode;
use hyper::header::{CONTENT_RANGE, HeaderName, LOCATION, RANGE};

const MOST_REDIRECTS: usize = 5;

/// Why a transfer ended early.
enum Broken {
    /// Another request may continue.
    Connection(RequestError),
    Pull(PullError),
}

// === impl Source ===

impl Source<'_> {
    /// Brings a blob into the store, unless it is there.
    pub(super) async fn download(
        &self,
        writing: &Writing,
        blob: &Descriptor,
        progress: &Note<'_>,
    ) -> Result<(), PullError> {
        if writing.store().has(blob)? {
            return Ok(());
        }
        let mut writer = writing.resume(blob)?;
        let is_resumed = writer.written() > 0;
        self.fill(&mut writer, blob, progress).await?;
        match writer.finish() {
            // Bytes of an earlier, interrupted pull were wrong: once more, from the beginning.
            Err(BlobError::Digest { .. }) if is_resumed => {
                let mut writer = writing.resume(blob)?;
                writer.restart()?;
                self.fill(&mut writer, blob, progress).await?;
                Ok(writer.finish()?)
            }
            finished => Ok(finished?),
        }
    }

    /// Asks until the blob has its size. Only attempts that bring nothing are counted.
    async fn fill(
        &self,
        writer: &mut BlobWriter,
        blob: &Descriptor,
        progress: &Note<'_>,
    ) -> Result<(), PullError> {
        let mut failures = 0;
        while writer.written() < blob.size || blob.size == 0 {
            let before = writer.written();
            match self.transfer(writer, blob, progress).await {
                Ok(()) if writer.written() == before => return Ok(()),
                Ok(()) => {}
                Err(Broken::Pull(error)) => return Err(error),
                Err(Broken::Connection(source)) => {
                    failures = if writer.written() > before {
                        0
                    } else {
                        failures + 1
                    };
                    if failures >= self.access.bounds.attempts.max(1) {
                        return Err(self.failed(source));
                    }
                }
            }
        }
        Ok(())
    }

    /// One request, from the first byte that is missing.
    async fn transfer(
        &self,
        writer: &mut BlobWriter,
        blob: &Descriptor,
        progress: &Note<'_>,
    ) -> Result<(), Broken> {
        let path = format!("blobs/{}", blob.digest);
        let mut headers = Vec::new();
        if writer.written() > 0 {
            headers.push((RANGE, format!("bytes={}-", writer.written())));
        }
        let asked = self.ask(&path, &headers).await;
        let answer = asked.map_err(|error| match error {
            PullError::Request { source, .. } => Broken::Connection(source),
            error => Broken::Pull(error),
        })?;
        let mut answer = self.follow(&path, answer, &headers).await?;
        let begin = format!("bytes {}-", writer.written());
        match answer.status() {
            // The server does not continue, or there is nothing to continue.
            StatusCode::OK => writer
                .restart()
                .map_err(|error| Broken::Pull(error.into()))?,
            StatusCode::PARTIAL_CONTENT
                if answer
                    .header(&CONTENT_RANGE)
                    .is_some_and(|it| it.starts_with(&begin)) => {}
            status => return Err(Broken::Pull(self.unexpected(path, status))),
        }
        while let Some(part) = answer
            .next(self.access.bounds.stall)
            .await
            .map_err(Broken::Connection)?
        {
            writer
                .add(&part)
                .map_err(|error| Broken::Pull(error.into()))?;
            progress(blob, writer.written());
        }
        Ok(())
    }

    /// Follows redirects. No request after the first one has credentials.
    async fn follow(
        &self,
        path: &str,
        mut answer: Answer,
        headers: &[(HeaderName, String)],
    ) -> Result<Answer, Broken> {
        let mut address = self.address(path);
        for _ in 0..MOST_REDIRECTS {
            if !answer.status().is_redirection() {
                return Ok(answer);
            }
            let unexpected = || Broken::Pull(self.unexpected(path.to_owned(), answer.status()));
            let location = answer.header(&LOCATION).ok_or_else(unexpected)?;
            let next: Option<Address> = address.join(&location);
            address = next.ok_or_else(unexpected)?;
            if !address.is_tls && !self.access.plain.contains(&address.authority) {
                return Err(unexpected());
            }
            answer = get(self.access, &address, headers, None)
                .await
                .map_err(Broken::Connection)?;
        }
        Err(Broken::Pull(
            self.unexpected(path.to_owned(), answer.status()),
        ))
    }
}
