//! The stored forms of client state: magic, version, checksum, fixed-width fields. A store moves these bytes and never
//! looks into them; what is torn, foreign or of another version is refused, never guessed.

mod frame;
mod pending;
