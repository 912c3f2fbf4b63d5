//! Stored parts, as tests read and forge them: a byte for the format, a checksum, and the content.

use serde::Serialize;
use serde_json::Value;

/// The format of what is written.
pub(crate) const BINARY: u8 = 2;

/// The format that earlier versions wrote.
pub(crate) const JSON: u8 = 1;

/// A part with this content and a right checksum.
pub(crate) fn part(format: u8, content: &[u8]) -> Vec<u8> {
    let mut part = vec![format];
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&part);
    checksum.update(content);
    part.extend(checksum.finalize().to_le_bytes());
    part.extend(content);
    part
}

/// The content of a part as a tree, in both formats. Arrays of the binary one have no names.
pub(crate) fn tree(part: &[u8]) -> Value {
    match part[0] {
        JSON => serde_json::from_slice(&part[5..]).unwrap(),
        _ => minicbor_serde::from_slice(&part[5..]).unwrap(),
    }
}

/// The part in a format with this tree.
pub(crate) fn part_of(format: u8, tree: &Value) -> Vec<u8> {
    if format == JSON {
        return part(format, &serde_json::to_vec(tree).unwrap());
    }
    let mut content = Vec::new();
    let mut serializer = minicbor_serde::Serializer::new(&mut content);
    serializer.serialize_unit_as_null(true);
    tree.serialize(&mut serializer).unwrap();
    part(format, &content)
}

/// Changes the content of a part.
pub(crate) fn change(part: &mut Vec<u8>, change: impl FnOnce(&mut Value)) {
    let mut tree = tree(part);
    change(&mut tree);
    *part = part_of(part[0], &tree);
}
