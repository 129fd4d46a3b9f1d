//! Verifying an instant lookup's answers, and the records in them.
//!
//! What a server changes in its answer it changes without knowing the group asked for, so whether the sum is accepted
//! must not depend on that group: every byte of the sum is part of the verdict, also of the group's other records, of
//! what lies beyond the partition's end, and of siblings that there are not.

use keyhush_kernels::scan::xor_into;

use super::query::Pending;
use super::shape;
use crate::commitment::{COMMITMENT_BYTES, Merkle};
use crate::error::{Error, expect_length};

/// The records asked for, ℓ bytes each in the order of the queries, from both servers' answers; `None` if one of them
/// was changed. `commitments` are the Q of the manifest at the queries' epoch.
///
/// # Errors
/// [`Error::Length`] for commitments or answers of another length.
pub fn recon(pending: &Pending, commitments: &[u8], answers: [&[u8]; 2]) -> Result<Option<Vec<u8>>, Error> {
    let layout = pending.layout();
    let shape = shape(layout);
    expect_length("commitments", commitments, layout.partitions() * COMMITMENT_BYTES)?;
    for answer in answers {
        expect_length("instant answer", answer, pending.indices().len() * shape.answer_bytes())?;
    }
    let commitments: &[[u8; COMMITMENT_BYTES]] = commitments.as_chunks().0;
    let mut sum = answers[0].to_vec();
    xor_into(&mut sum, answers[1]);

    let mut blocks = Vec::with_capacity(pending.indices().len() * layout.record_bytes());
    let mut genuine = true;
    for (answer, &index) in sum.chunks_exact(shape.answer_bytes()).zip(pending.indices()) {
        let (q, m) = layout.locate(index)?;
        let (group, siblings) = answer.split_at(shape.group_bytes());
        genuine &=
            Merkle::verify_group(layout, &commitments[q], shape.group_log, m >> shape.group_log, group, siblings);
        let slot = m % (1 << shape.group_log);
        blocks.extend_from_slice(&group[slot * layout.record_bytes()..][..layout.record_bytes()]);
    }
    Ok(genuine.then(|| layout.cut(pending.indices(), &blocks)))
}
