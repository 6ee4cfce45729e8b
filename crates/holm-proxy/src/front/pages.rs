//! The front door's own error and waiting pages: HTML for browsers, JSON or text for programs.
//!
//! They load no resources, and all text from outside is escaped. Every program on this machine can
//! request them, so they only mention names that the request contained; `holm ports` lists the
//! rest.

use super::relay::Relay;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use std::fmt::Write;

/// A response that the front door makes itself.
pub struct Page {
    pub status: StatusCode,
    /// A stable code for programs.
    pub code: &'static str,
    pub title: String,
    pub text: String,
    /// The next command to type.
    pub command: Option<String>,
    pub then: Then,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    Stay,
    /// The page polls until the port listens, then loads it.
    Wait,
}

/// The format that the client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Html,
    Json,
    Text,
}

const STYLE: &str = include_str!("page.css");
const WAIT: &str = include_str!("wait.js");

/// No resource is loaded from anywhere; the inline script may only call this server.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'";

// === impl Form ===

impl Form {
    /// Only browsers send `Accept: text/html`.
    pub fn wanted(headers: &HeaderMap) -> Self {
        let accept = headers
            .get(header::ACCEPT)
            .and_then(|value| value.to_str().ok());
        match accept {
            Some(accept) if accept.contains("text/html") => Form::Html,
            Some(accept) if accept.contains("json") => Form::Json,
            _ => Form::Text,
        }
    }
}

// === impl Page ===

impl Page {
    pub fn answer(&self, form: Form) -> Response<Relay> {
        let (kind, text) = match form {
            Form::Html => ("text/html; charset=utf-8", self.html()),
            Form::Json => ("application/json", self.json()),
            Form::Text => ("text/plain; charset=utf-8", self.text()),
        };
        let mut response = Response::new(Relay::own(text));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        for (name, value) in [
            (header::CONTENT_TYPE, kind),
            (header::CACHE_CONTROL, "no-store"),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::CONTENT_SECURITY_POLICY, POLICY),
            (header::REFERRER_POLICY, "no-referrer"),
            (
                HeaderName::from_static("cross-origin-resource-policy"),
                "same-site",
            ),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }

    fn html(&self) -> String {
        let mut page = String::with_capacity(4096);
        let title = escaped(&self.title);
        let _ = write!(
            page,
            "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport \
             content='width=device-width'><meta name=color-scheme content='light dark'>\
             <title>{title}</title><style>{STYLE}</style><main><h1>"
        );
        if self.then == Then::Wait {
            page.push_str("<i class=wait></i>");
        }
        let _ = write!(page, "{title}</h1><p>{}</p>", escaped(&self.text));
        if let Some(command) = &self.command {
            let _ = write!(page, "<p><code>{}</code></p>", escaped(command));
        }
        let _ = write!(
            page,
            "<footer>holm · {}</footer></main>",
            self.status.as_u16()
        );
        if self.then == Then::Wait {
            let _ = write!(
                page,
                "<noscript><meta http-equiv=refresh content=2></noscript><script>{WAIT}</script>"
            );
        }
        page
    }

    fn text(&self) -> String {
        let mut text = format!("{}: {}\n", self.title, self.text);
        if let Some(command) = &self.command {
            let _ = writeln!(text, "try: {command}");
        }
        text
    }

    fn json(&self) -> String {
        let hint = self.command.as_deref().unwrap_or_default();
        format!(
            "{{\"error\":{{\"code\":{},\"message\":{},\"hint\":{}}}}}\n",
            quoted(self.code),
            quoted(&format!("{}: {}", self.title, self.text)),
            quoted(hint)
        )
    }
}

fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            character => safe.push(character),
        }
    }
    safe
}

/// Encodes a JSON string.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(character);
            }
            control if control < ' ' => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(control));
            }
            character => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_outside_is_markup() {
        assert_eq!(escaped("<script>'\"&"), "&lt;script&gt;&#39;&quot;&amp;");
        assert_eq!(quoted("a\"\\\n\u{1b}é"), "\"a\\\"\\\\\\u000a\\u001bé\"");
    }

    #[test]
    fn everybody_gets_what_they_read() {
        let check = |accept: Option<&'static str>, expect: Form| {
            let mut headers = HeaderMap::new();
            if let Some(accept) = accept {
                headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            }
            assert_eq!(Form::wanted(&headers), expect);
        };
        check(None, Form::Text);
        check(Some("*/*"), Form::Text);
        check(Some("application/json"), Form::Json);
        check(
            Some("text/html,application/xhtml+xml,*/*;q=0.8"),
            Form::Html,
        );
    }
}
