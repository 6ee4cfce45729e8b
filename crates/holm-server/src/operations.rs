//! Declares the operations of a group of routes as a table, one row for each: method, path, id in
//! the API document, handler, parameters, body, and the answer, the events that are streamed until
//! the last one, or a WebSocket. The row's doc comment is the description.
//!
//! An operation with another status or content type has `utoipa::path` at its handler instead, and
//! stands in the brackets at the beginning.

macro_rules! operations {
    (
        $([$($special:ident),+])?
        $(
            $(#[doc = $doc:tt])*
            $method:ident $path:tt $id:tt $handler:ident
                $(of ($($parameters:ident),+))? $(sends $body:ident)?
                $(-> $answer:ident)? $(streams $event:ident until $last:tt)? $(opens $socket:ident)?;
        )+
    ) => {
        pub fn routes() -> utoipa_axum::router::OpenApiRouter<std::sync::Arc<crate::App>> {
            utoipa_axum::router::OpenApiRouter::new()
                $($(.routes(utoipa_axum::routes!($special)))+)?
                $(.routes(utoipa_axum::routes!($handler)))+
        }

        use described::*;

        /// `utoipa::path` needs a function; these have the names of the handlers.
        mod described {
            use super::*;
            $(
                $(#[doc = $doc])*
                #[utoipa::path(
                    $method,
                    path = $path,
                    operation_id = $id,
                    $(params($($parameters),+),)?
                    $(request_body = $body,)?
                    responses(
                        $((status = 200, body = $answer))?
                        $((
                            status = 200,
                            description = concat!("how far it is; the last line is `", $last, "` or `error`"),
                            content_type = "application/jsonl",
                            body = $event
                        ))?
                        $((status = 101, description = concat!("a ", stringify!($socket))))?
                    )
                )]
                #[allow(dead_code)]
                pub fn $handler() {}
            )+
        }
    };
}
