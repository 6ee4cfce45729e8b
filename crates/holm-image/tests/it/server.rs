//! Debian's `docker-registry` on a loopback port, and a small client that pushes to it.

use crate::support::{Image, MANIFEST};
use holm_image::digest_of;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

pub struct Registry {
    process: Child,
    pub port: u16,
    /// The value of the header `Authorization` of pushes.
    pub authorization: Option<&'static str>,
    _files: tempfile::TempDir,
}

impl Registry {
    pub fn start() -> Self {
        Self::start_with(|_| String::new())
    }

    /// `more` writes files and returns further lines of the section `http`, or other sections.
    pub fn start_with(more: impl Fn(&Path) -> String) -> Self {
        let files = tempfile::tempdir().unwrap();
        let config = files.path().join("config.yml");
        let root = files.path().join("data");
        let more = more(files.path());
        let text = format!(
            "version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: 127.0.0.1:0\n{more}",
            root.display()
        );
        std::fs::write(&config, text).unwrap();
        let mut process = Command::new("docker-registry")
            .arg("serve")
            .arg(&config)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let address = lines.by_ref().find_map(|line| {
            let line = line.unwrap();
            let (_, after) = line.split_once("listening on 127.0.0.1:")?;
            Some(
                after
                    .chars()
                    .take_while(char::is_ascii_digit)
                    .collect::<String>(),
            )
        });
        // The registry logs every request; a full pipe would stop it.
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            process,
            port: address.unwrap().parse().unwrap(),
            authorization: None,
            _files: files,
        }
    }

    pub fn push(&self, repository: &str, tag: &str, image: &Image) {
        for blob in &image.blobs {
            self.push_blob(repository, blob);
        }
        self.push_manifest(repository, tag, MANIFEST, &image.manifest);
    }

    pub fn push_blob(&self, repository: &str, blob: &[u8]) {
        let (_, head) = self.request("POST", &format!("/v2/{repository}/blobs/uploads/"), "", b"");
        let location = head
            .lines()
            .find_map(|line| line.strip_prefix("Location: "))
            .unwrap();
        let path = location
            .split_once("//")
            .and_then(|(_, rest)| rest.find('/').map(|at| &rest[at..]))
            .unwrap_or(location);
        let path = format!("{path}&digest={}", digest_of(blob));
        let (status, head) = self.request("PUT", &path, "application/octet-stream", blob);
        assert_eq!(status, 201, "{head}");
    }

    pub fn push_manifest(&self, repository: &str, tag: &str, media_type: &str, manifest: &[u8]) {
        let path = format!("/v2/{repository}/manifests/{tag}");
        let (status, head) = self.request("PUT", &path, media_type, manifest);
        assert_eq!(status, 201, "{head}");
    }

    fn request(&self, method: &str, path: &str, media_type: &str, body: &[u8]) -> (u16, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let signed = self
            .authorization
            .map(|value| format!("Authorization: {value}\r\n"));
        let signed = signed.unwrap_or_default();
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n{signed}Content-Type: {media_type}\r\nContent-Length: {}\r\n\r\n", self.port, body.len()).unwrap();
        stream.write_all(body).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (status, answer)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
