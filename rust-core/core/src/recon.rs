//! `Recon` (Fig. 5): verify every entry of both answers, and only then recover the records and bring permutations and
//! parities to the state after the batch, together.

use crate::commitment::VectorCommitment;
use crate::error::{Error, expect_length};
use crate::hint::{Hint, xor_into};
use crate::query::{Pending, Role, swap};

/// Verifies all count·Q entries of one server's answer, the dummy at q* and the refresh entries included, without
/// early exit (Fig. 5, Recon 9–15), and keeps its records for [`recon`]. `false`: at least one entry is forged, and
/// the hint is condemned.
///
/// # Errors
/// [`Error::Condemned`]; [`Error::Length`] if the answer is not count·Q entries (it was then not evaluated, and
/// nothing changed).
pub fn verify<C: VectorCommitment>(
    hint: &mut Hint,
    pending: &mut Pending,
    role: Role,
    entries: &[u8],
) -> Result<bool, Error> {
    if hint.condemned {
        return Err(Error::Condemned);
    }
    let layout = hint.layout;
    let (record_bytes, entry_bytes) = (layout.record_bytes(), layout.record_bytes() + C::proof_bytes(&layout));
    let offsets = pending.offsets(role);
    expect_length("answer", entries, offsets.len() * entry_bytes)?;

    let mut records = Vec::with_capacity(offsets.len() * record_bytes);
    let mut genuine = true;
    for (number, (entry, &offset)) in entries.chunks_exact(entry_bytes).zip(offsets).enumerate() {
        let (record, proof) = entry.split_at(record_bytes);
        let commitment = hint.commitment(number % layout.partitions());
        genuine &= C::verify(&layout, commitment, usize::from(offset), record, proof);
        records.extend_from_slice(record);
    }
    if genuine {
        pending.verified[role as usize] = Some(records);
    } else {
        hint.condemn();
    }
    Ok(genuine)
}

/// Recovers the batch's records, count·ℓ bytes in query order, and applies the batch to the hint (Fig. 5, Recon
/// 16–21). Consumes what may be used only once.
///
/// # Errors
/// [`Error::Condemned`]; [`Error::Phase`], with the batch given back, if an answer has not been verified.
pub fn recon(hint: &mut Hint, pending: Pending) -> Result<Vec<u8>, (Error, Pending)> {
    if hint.condemned {
        return Err((Error::Condemned, pending));
    }
    let [Some(retrieve), Some(refresh)] = &pending.verified else {
        return Err((Error::Phase("both answers are verified before a batch is applied"), pending));
    };
    let layout = hint.layout;
    let (partitions, record_bytes) = (layout.partitions(), layout.record_bytes());

    let mut recovered = Vec::with_capacity(pending.count() * record_bytes);
    let mut change = vec![0; record_bytes];
    for (number, &index) in pending.indices.iter().enumerate() {
        let q_star = index as usize / layout.partition_records();
        let column = usize::from(pending.columns[number]);
        let start = recovered.len();
        recovered.extend_from_slice(hint.parity_mut(column));

        let of_query = number * partitions * record_bytes..(number + 1) * partitions * record_bytes;
        let retrieved = retrieve[of_query.clone()].chunks_exact(record_bytes);
        let refreshed = refresh[of_query].chunks_exact(record_bytes);
        for (q, (retrieved, refreshed)) in retrieved.zip(refreshed).enumerate() {
            if q == q_star {
                continue;
            }
            xor_into(&mut recovered[start..], retrieved); // Recon 17
            change.copy_from_slice(retrieved);
            xor_into(&mut change, refreshed);
            xor_into(hint.parity_mut(column), &change); // Recon 19
            let refresh_column = pending.refresh_columns[number * partitions + q];
            xor_into(hint.parity_mut(usize::from(refresh_column)), &change); // Recon 20
        }
        swap(hint, &pending, number, q_star); // Query 12, put off until here
    }
    Ok(recovered)
}
