//! The list of all API routes, with access rules and content types. The daemon's gate refuses
//! routes that are not in it, and tests cover every entry.

/// One method of one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    pub method: &'static str,
    /// Below [`PREFIX`](crate::PREFIX), except for those in [`OUTSIDE`].
    pub path: &'static str,
    pub access: Access,
    pub content: Content,
}

/// Who may call a route. The user at the Unix socket always may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everyone, also without a token.
    Anyone,
    /// A user's token, and a workspace if `{id}` is its own.
    Own,
    /// A user's token, and every workspace, which sees only itself.
    Filtered,
    /// A user's token. For a workspace the route does not exist.
    User,
    /// A user's token. A workspace gets `not_allowed`, because the route changes what the workspace
    /// may do.
    Policy,
    /// Only the user, at the Unix socket or in a browser that is signed in: tokens cannot create or revoke tokens.
    Person,
    /// A browser that is signed in to the dashboard.
    Browser,
}

/// The content of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// JSON, or nothing.
    Json,
    /// Bytes, with any content type except those that a foreign web page can send without a
    /// preflight.
    Bytes,
    /// Nothing: the connection becomes a WebSocket, which counts as a change.
    WebSocket,
}

/// All routes below [`PREFIX`](crate::PREFIX).
pub const ROUTES: &[Route] = &[
    json("GET", "/ping", Access::Filtered),
    json("GET", "/openapi.json", Access::Filtered),
    json("GET", "/daemon", Access::User),
    json("POST", "/daemon/stop", Access::User),
    json("GET", "/disk", Access::User),
    json("GET", "/doctor", Access::User),
    json("GET", "/events", Access::Filtered),
    json("GET", "/audit", Access::User),
    json("POST", "/dashboard", Access::Person),
    json("GET", "/tokens", Access::Policy),
    json("POST", "/tokens", Access::Person),
    json("DELETE", "/tokens/{token}", Access::Person),
    json("GET", "/secrets", Access::Policy),
    json("PUT", "/secrets", Access::Policy),
    json("DELETE", "/secrets", Access::Policy),
    json("POST", "/secrets/handover", Access::Policy),
    json("GET", "/secrets/audit", Access::Policy),
    json("POST", "/secrets/rotate-key", Access::Person),
    json("POST", "/secrets/unlock", Access::Person),
    json("POST", "/secrets/export", Access::Person),
    json("POST", "/secrets/import", Access::Person),
    json("GET", "/workspaces/{id}/secrets", Access::Policy),
    json("POST", "/workspaces/{id}/secrets", Access::Policy),
    json("GET", "/inbox", Access::Filtered),
    json("GET", "/ports", Access::Filtered),
    json("GET", "/numbers", Access::Filtered),
    json("GET", "/names", Access::Filtered),
    json("GET", "/checkout", Access::User),
    json("POST", "/checkout", Access::User),
    json("DELETE", "/checkout", Access::User),
    json("POST", "/gc", Access::User),
    json("GET", "/images", Access::User),
    json("POST", "/images", Access::User),
    json("DELETE", "/images", Access::User),
    json("POST", "/images/import", Access::User),
    json("GET", "/projects", Access::User),
    json("POST", "/projects", Access::User),
    json("POST", "/projects/sync", Access::User),
    json("PATCH", "/projects/{id}", Access::User),
    json("DELETE", "/projects/{id}", Access::User),
    json("GET", "/projects/{id}/refs", Access::User),
    json("GET", "/projects/{id}/trust", Access::Person),
    json("POST", "/projects/{id}/trust", Access::Person),
    json("POST", "/projects/{id}/refs", Access::User),
    json("POST", "/projects/{id}/workspaces", Access::User),
    json("POST", "/projects/{id}/trees", Access::User),
    json("PUT", "/projects/{id}/trees", Access::User),
    socket("/projects/{id}/receive-pack", Access::User),
    json("POST", "/trust", Access::Policy),
    json("POST", "/trust/check", Access::Policy),
    bytes("POST", "/uploads", Access::User),
    json("GET", "/workspaces", Access::Filtered),
    json("POST", "/workspaces", Access::User),
    json("GET", "/workspaces/{id}", Access::Own),
    json("PATCH", "/workspaces/{id}", Access::User),
    json("DELETE", "/workspaces/{id}", Access::User),
    json("POST", "/workspaces/{id}/start", Access::User),
    json("POST", "/workspaces/{id}/stop", Access::User),
    json("POST", "/workspaces/{id}/restart", Access::User),
    json("POST", "/workspaces/{id}/images", Access::User),
    json("POST", "/workspaces/{id}/restore", Access::User),
    json("POST", "/workspaces/{id}/cancel", Access::User),
    json("POST", "/workspaces/{id}/assign", Access::User),
    json("POST", "/workspaces/{id}/sync", Access::User),
    json("POST", "/workspaces/{id}/fork", Access::User),
    json("POST", "/workspaces/{id}/reset", Access::User),
    json("GET", "/workspaces/{id}/snapshots", Access::Own),
    json("POST", "/workspaces/{id}/snapshots", Access::Own),
    json("POST", "/workspaces/{id}/reload", Access::Policy),
    json("POST", "/workspaces/{id}/browser", Access::User),
    json("GET", "/workspaces/{id}/egress", Access::Own),
    socket("/workspaces/{id}/exec", Access::Own),
    socket("/workspaces/{id}/upload-pack", Access::User),
    json("GET", "/runs", Access::Filtered),
    json("GET", "/workspaces/{id}/runs", Access::Own),
    json("POST", "/workspaces/{id}/runs", Access::Own),
    socket("/workspaces/{id}/runs/output", Access::Own),
    json("GET", "/workspaces/{id}/runs/{run}", Access::Own),
    json("POST", "/workspaces/{id}/runs/{run}/cancel", Access::Own),
    socket("/workspaces/{id}/runs/{run}/output", Access::Own),
    json("GET", "/workspaces/{id}/ports", Access::Own),
    json("GET", "/workspaces/{id}/numbers", Access::Own),
    json("GET", "/workspaces/{id}/services", Access::Own),
    json("POST", "/workspaces/{id}/services", Access::Own),
    json("GET", "/sessions", Access::User),
    json("GET", "/workspaces/{id}/sessions", Access::Own),
    json("POST", "/workspaces/{id}/sessions", Access::Own),
    json("GET", "/workspaces/{id}/sessions/{session}", Access::Own),
    json("DELETE", "/workspaces/{id}/sessions/{session}", Access::Own),
    json(
        "POST",
        "/workspaces/{id}/sessions/{session}/send",
        Access::Own,
    ),
    json(
        "GET",
        "/workspaces/{id}/sessions/{session}/read",
        Access::Own,
    ),
    json(
        "POST",
        "/workspaces/{id}/sessions/{session}/wait",
        Access::Own,
    ),
    socket("/workspaces/{id}/sessions/{session}/attach", Access::Own),
    json("GET", "/workspaces/{id}/logs", Access::Own),
    json("POST", "/workspaces/{id}/capture", Access::Own),
    json("GET", "/workspaces/{id}/changes", Access::Own),
    json("GET", "/workspaces/{id}/diff", Access::Own),
    json("GET", "/workspaces/{id}/hunks", Access::Own),
    json("GET", "/compare", Access::User),
    json("GET", "/workspaces/{id}/turns", Access::Own),
    json("POST", "/workspaces/{id}/turns", Access::Own),
    json("POST", "/workspaces/{id}/turns/state", Access::User),
    json("GET", "/workspaces/{id}/review", Access::Own),
    json("POST", "/workspaces/{id}/review", Access::User),
    json("GET", "/workspaces/{id}/checks", Access::Own),
    json("POST", "/workspaces/{id}/checks", Access::Own),
    json("POST", "/workspaces/{id}/checks/cancel", Access::Own),
    json("GET", "/workspaces/{id}/comments", Access::Own),
    json("POST", "/workspaces/{id}/comments", Access::User),
    json("POST", "/workspaces/{id}/comments/send", Access::User),
    json("POST", "/workspaces/{id}/comments/act", Access::Own),
    json("POST", "/workspaces/{id}/notify", Access::Own),
    json("GET", "/workspaces/{id}/apply", Access::Person),
    json("POST", "/workspaces/{id}/apply", Access::Person),
    json("DELETE", "/workspaces/{id}/apply", Access::Person),
    json("POST", "/workspaces/{id}/merge", Access::Person),
    json("GET", "/workspaces/{id}/approve", Access::Own),
    json("POST", "/workspaces/{id}/approve", Access::Policy),
    json("GET", "/workspaces/{id}/files", Access::Own),
    bytes("PUT", "/workspaces/{id}/files", Access::Own),
    json("DELETE", "/workspaces/{id}/files", Access::Own),
    json("GET", "/workspaces/{id}/files/stat", Access::Own),
    json("GET", "/workspaces/{id}/files/search", Access::Own),
    json("GET", "/workspaces/{id}/files/archive", Access::Own),
    bytes("PUT", "/workspaces/{id}/files/archive", Access::Own),
];

/// The routes outside the prefix.
pub const OUTSIDE: &[Route] = &[
    json("GET", "/health", Access::Anyone),
    json("GET", "/metrics", Access::User),
    json("POST", "/mcp", Access::User),
    json("GET", "/mcp", Access::User),
    json("DELETE", "/mcp", Access::User),
    json("POST", "/ui/login", Access::Anyone),
    json("POST", "/ui/tab", Access::Anyone),
    json("POST", "/ui/ticket", Access::Browser),
    json("POST", "/ui/logout", Access::Browser),
    json("GET", "/ui/state", Access::Browser),
];

const fn json(method: &'static str, path: &'static str, access: Access) -> Route {
    Route {
        method,
        path,
        access,
        content: Content::Json,
    }
}

const fn bytes(method: &'static str, path: &'static str, access: Access) -> Route {
    Route {
        method,
        path,
        access,
        content: Content::Bytes,
    }
}

const fn socket(path: &'static str, access: Access) -> Route {
    Route {
        method: "GET",
        path,
        access,
        content: Content::WebSocket,
    }
}

// === impl Route ===

impl Route {
    /// The route of a method and a path pattern with `{names}`. HEAD counts as GET.
    pub fn find(method: &str, path: &str) -> Option<&'static Route> {
        let method = if method == "HEAD" { "GET" } else { method };
        let (routes, path) = match path.strip_prefix(crate::PREFIX) {
            Some(below) => (ROUTES, below),
            None => (OUTSIDE, path),
        };
        let mut routes = routes.iter();
        routes.find(|route| route.method == method && route.path == path)
    }

    /// Whether a request can change something.
    pub fn changes(&self) -> bool {
        self.method != "GET" || self.content == Content::WebSocket
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PREFIX;

    #[test]
    fn every_route_is_there_once() {
        for route in ROUTES {
            let path = format!("{PREFIX}{}", route.path);
            assert_eq!(Route::find(route.method, &path), Some(route));
        }
        for (number, route) in OUTSIDE.iter().enumerate() {
            assert_eq!(
                Route::find(route.method, route.path),
                Some(&OUTSIDE[number])
            );
        }
        assert_eq!(Route::find("GET", "/workspaces"), None);
        assert_eq!(Route::find("PUT", "/api/v1/workspaces"), None);
        let list = Route::find("HEAD", "/api/v1/workspaces").unwrap();
        assert!(!list.changes());
        assert!(
            Route::find("GET", "/api/v1/workspaces/{id}/exec")
                .unwrap()
                .changes()
        );
    }

    /// `Access::Own` is about the workspace in the path, so the path must have one.
    #[test]
    fn what_is_own_says_whose() {
        for route in ROUTES.iter().filter(|route| route.access == Access::Own) {
            assert!(route.path.starts_with("/workspaces/{id}"), "{}", route.path);
        }
    }
}
