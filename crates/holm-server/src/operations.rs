//! Declares the operations of a group of routes as a table, one row for each: method, path, id in
//! the API document, handler, parameters, body and answer. The row's doc comment is the description.
//!
//! An operation with another status or content type than JSON with 200 has `utoipa::path` at its
//! handler instead, and stands in the brackets at the beginning.

macro_rules! operations {
    (
        $([$($special:ident),+])?
        $(
            $(#[doc = $doc:tt])*
            $method:ident $path:tt $id:tt $handler:ident
                $(of ($($parameters:ident),+))? $(sends $body:ident)? -> $answer:ident;
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
                    responses((status = 200, body = $answer))
                )]
                #[allow(dead_code)]
                pub fn $handler() {}
            )+
        }
    };
}
