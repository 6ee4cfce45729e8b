//! Parses JSON of clients: a structure must be an object with named fields, at every depth.
//!
//! serde's derived structures also accept an array, by position, so that `[null,null,true]` would
//! be a request to reset by force. Every request body and every message of a client is parsed by
//! [`from_slice`], which accepts arrays only for lists.

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use std::fmt;

/// As [`serde_json::from_slice`], without structures as arrays.
pub fn from_slice<T: DeserializeOwned>(json: &[u8]) -> Result<T, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let value = T::deserialize(Named(&mut reader))?;
    reader.end()?;
    Ok(value)
}

/// Wraps a part of the parser, and so every part below it.
struct Named<T>(T);

/// The visitor of a structure: accepts an object and nothing else.
struct Fields<V>(V);

/// Methods that pass the visitor on, wrapped.
macro_rules! pass_on {
    ($($method:ident($($argument:ident: $type:ty),*))*) => {
        $(fn $method<V: Visitor<'de>>(self, $($argument: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method($($argument,)* Named(visitor))
        })*
    };
}

/// Methods that take a plain value.
macro_rules! visit_plain {
    ($($method:ident($type:ty))*) => {
        $(fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.0.$method(value)
        })*
    };
}

// === impl Named ===

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Named<D> {
    type Error = D::Error;

    pass_on! {
        deserialize_any() deserialize_bool()
        deserialize_i8() deserialize_i16() deserialize_i32() deserialize_i64() deserialize_i128()
        deserialize_u8() deserialize_u16() deserialize_u32() deserialize_u64() deserialize_u128()
        deserialize_f32() deserialize_f64() deserialize_char() deserialize_str() deserialize_string()
        deserialize_bytes() deserialize_byte_buf() deserialize_option() deserialize_unit()
        deserialize_unit_struct(name: &'static str) deserialize_newtype_struct(name: &'static str)
        deserialize_seq() deserialize_tuple(length: usize)
        deserialize_tuple_struct(name: &'static str, length: usize) deserialize_map()
        deserialize_enum(name: &'static str, variants: &'static [&'static str])
        deserialize_identifier() deserialize_ignored_any()
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_struct(name, fields, Fields(visitor))
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Named<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    visit_plain! {
        visit_bool(bool) visit_i64(i64) visit_i128(i128) visit_u64(u64) visit_u128(u128)
        visit_f64(f64) visit_str(&str) visit_borrowed_str(&'de str) visit_string(String)
        visit_bytes(&[u8]) visit_borrowed_bytes(&'de [u8]) visit_byte_buf(Vec<u8>)
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Named(inner))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(Named(inner))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(Named(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Named(entries))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variants: A) -> Result<V::Value, A::Error> {
        self.0.visit_enum(Named(variants))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Named<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Named(inner))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Named<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Named(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Named<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_key_seed(Named(seed))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(Named(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for Named<A> {
    type Error = A::Error;
    type Variant = Named<A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Self::Variant), A::Error> {
        let (value, variant) = self.0.variant_seed(seed)?;
        Ok((value, Named(variant)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Named<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.0.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.0.newtype_variant_seed(Named(seed))
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.0.tuple_variant(length, Named(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.0.struct_variant(fields, Fields(visitor))
    }
}

// === impl Fields ===

impl<'de, V: Visitor<'de>> Visitor<'de> for Fields<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)?;
        f.write_str(" as an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Named(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holm_api::exec::ToServer;
    use holm_api::workspace::{CreateWorkspace, Dirty, Reset};
    use serde_json::{Value, json};

    fn why<T: DeserializeOwned>(json: &Value) -> Option<String> {
        let read = from_slice::<T>(json.to_string().as_bytes());
        read.err().map(|error| error.to_string())
    }

    fn create(remote: Value, dirty: Value) -> Value {
        json!({
            "label": null, "reuse": false, "commit": null, "ref": null, "default_root": "/src",
            "home": "/home/me", "config": null, "untrusted": false, "allow_degraded": [],
            "user_name": null, "user_email": null, "remotes": [remote], "shallow": ["a"],
            "path": "/bin", "lang": null, "tz": null, "include": null, "excluded": [],
            "dirty": dirty, "notes": [],
        })
    }

    #[test]
    fn a_structure_is_an_object_at_every_depth() {
        let reset = json!([null, null, true]);
        assert!(
            serde_json::from_value::<Reset>(reset.clone())
                .unwrap()
                .force
        );
        let explained = why::<Reset>(&reset).unwrap();
        assert!(explained.contains("invalid type: sequence"), "{explained}");
        assert_eq!(why::<Reset>(&json!({ "force": true })), None);

        let remote = json!({ "name": "origin", "url": "u", "fetch": ["f"] });
        let dirty = |changed: Value| json!({ "pack": "p", "worktree_tree": "w", "index_tree": "i", "changed": changed });
        let changed = json!([{ "path": "a", "object": null }]);
        assert_eq!(
            why::<CreateWorkspace>(&create(remote.clone(), dirty(changed))),
            None
        );
        let placed = [
            create(json!(["origin", "u", []]), Value::Null),
            create(remote.clone(), json!(["p", "w", "i", [], []])),
            create(remote, dirty(json!([["a", null]]))),
        ];
        for wish in placed {
            assert!(serde_json::from_value::<CreateWorkspace>(wish.clone()).is_ok());
            let explained = why::<CreateWorkspace>(&wish).unwrap();
            assert!(
                explained.contains("invalid type: sequence"),
                "{wish} {explained}"
            );
        }
    }

    #[test]
    fn a_variant_with_fields_is_an_object_too() {
        let named = json!({ "resize": { "rows": 1, "cols": 2 } });
        let placed = json!({ "resize": [1, 2] });
        assert_eq!(why::<ToServer>(&named), None);
        assert!(serde_json::from_str::<ToServer>(&placed.to_string()).is_ok());
        assert!(why::<ToServer>(&placed).is_some());
    }

    #[test]
    fn nothing_follows_and_the_place_of_an_error_is_told() {
        assert!(from_slice::<Reset>(b"{} {}").is_err());
        let error = from_slice::<Dirty>(b"{\n\"pack\": []}").unwrap_err();
        assert_eq!(error.line(), 2);
    }
}
