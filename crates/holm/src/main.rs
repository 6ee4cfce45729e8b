//! 
fn main() {}
