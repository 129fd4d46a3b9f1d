//! Proves the partitions of a database natively, for `keyhush build --prover` (docs/operations/ceremony.md). It makes the same bytes as
//! the WebAssembly module, several times as fast. Build it in packages/pointproofs/rust with
//! `cargo build --release -p keyhush-prover`.
//!
//! It writes its version. It reads the setup of a prover (`setup_of`), then Q, M and ℓ (u32 each, little-endian), then
//! partitions: the number (u32) and M·ℓ bytes of each. For each partition it writes the row list and the openings, 96 bytes for
//! each record.

use std::fmt::Display;
use std::io::{self, ErrorKind, Read, Write};
use std::process::ExitCode;

use keyhush_pointproofs::Shape;
use keyhush_pointproofs::prover::{Prover, SETUP_BYTES};

fn main() -> ExitCode {
    match serve(&mut io::stdin().lock(), &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("keyhush-prover: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Proves partitions until the input ends.
fn serve(input: &mut impl Read, output: &mut impl Write) -> Result<(), String> {
    writeln!(output, "keyhush-prover {}", env!("CARGO_PKG_VERSION")).and_then(|()| output.flush()).map_err(message)?;
    let mut setup = vec![0; SETUP_BYTES];
    input.read_exact(&mut setup).map_err(message)?;
    let [partitions, partition_records, record_bytes] = [number(input)?, number(input)?, number(input)?];
    let shape = Shape::new(partitions, partition_records, record_bytes).map_err(message)?;
    let prover = Prover::of_setup(&setup).map_err(message)?;
    let mut partition = vec![0; partition_records * record_bytes];
    loop {
        let mut q = [0; 4];
        match input.read_exact(&mut q) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            read => read.map_err(message)?,
        }
        input.read_exact(&mut partition).map_err(message)?;
        let made = prover.prove(&shape, u32::from_le_bytes(q) as usize, &partition).map_err(message)?;
        output.write_all(&made.row_list).map_err(message)?;
        output.write_all(&made.openings).and_then(|()| output.flush()).map_err(message)?;
    }
}

fn number(input: &mut impl Read) -> Result<usize, String> {
    let mut bytes = [0; 4];
    input.read_exact(&mut bytes).map_err(message)?;
    Ok(u32::from_le_bytes(bytes) as usize)
}

#[allow(clippy::needless_pass_by_value)] // for map_err
fn message(error: impl Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyhush_pointproofs::prover::setup_of;
    use keyhush_pointproofs::transcript::Transcript;

    #[test]
    fn partitions_are_proved_as_by_whoever_calls_the_prover_and_what_is_cut_off_is_refused() {
        let begun = Transcript::decode(&Transcript::begin(true)).unwrap().verify(&[1; 32]).unwrap();
        let bytes = begun.contribute("Ada", &[2; 32]).unwrap().transcript;
        let setup = setup_of(&Transcript::decode(&bytes).unwrap().verify(&[3; 32]).unwrap()).unwrap();
        let (partitions, records, bytes) = (3, 5, 4);
        let mut input = setup.clone();
        for number in [partitions, records, bytes] {
            input.extend(u32::try_from(number).unwrap().to_le_bytes());
        }
        let prover = Prover::of_setup(&setup).unwrap();
        let shape = Shape::new(partitions, records, bytes).unwrap();
        let mut expected = format!("keyhush-prover {}\n", env!("CARGO_PKG_VERSION")).into_bytes();
        for q in [2, 0] {
            let partition: Vec<u8> = (0..20).map(|byte| byte + q).collect();
            input.extend(u32::from(q).to_le_bytes());
            input.extend(&partition);
            let made = prover.prove(&shape, q.into(), &partition).unwrap();
            expected.extend(made.row_list.into_iter().chain(made.openings));
        }
        let mut output = Vec::new();
        serve(&mut &input[..], &mut output).unwrap();
        assert_eq!(output, expected);

        for cut in [0, 100, setup.len() + 3, input.len() - 1] {
            assert!(serve(&mut &input[..cut], &mut Vec::new()).is_err(), "at {cut}");
        }
        let at = setup.len() + 12;
        input[at] = 3; // there is no partition of that number
        assert!(serve(&mut &input[..], &mut Vec::new()).is_err());
    }
}
