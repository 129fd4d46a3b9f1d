//! Verifies the answers of an instant lookup, and takes the records out of them.
//!
//! A server that changes its answer does not know which group was asked for. So that it cannot learn the group from
//! whether the client accepts, every byte of the sum is verified: also the group's other records, the bytes beyond the
//! partition's end, and siblings that do not exist.

use keyhush_kernels::xor::xor_into;

use super::query::Pending;
use crate::commitment::{COMMITMENT_BYTES, Merkle};
use crate::error::{Error, expect_length};

/// The records, ℓ bytes each in the order of the queries, from all servers' answers, in the order of the servers; `None` if an answer was changed.
/// `commitments` are the Q commitments of the manifest at the queries' epoch.
///
/// # Errors
/// [`Error::Length`] for commitments or answers of the wrong length; [`Error::Index`] unless there is one answer a server.
pub fn recon(pending: &Pending, commitments: &[u8], answers: &[&[u8]]) -> Result<Option<Vec<u8>>, Error> {
    let layout = pending.layout();
    let shape = pending.shape();
    if answers.len() != pending.servers() {
        return Err(Error::Index { what: "number of answers", bound: pending.servers() as u64 + 1 });
    }
    expect_length("commitments", commitments, layout.partitions() * COMMITMENT_BYTES)?;
    for answer in answers {
        expect_length("instant answer", answer, pending.indices().len() * shape.answer_bytes())?;
    }
    let commitments: &[[u8; COMMITMENT_BYTES]] = commitments.as_chunks().0;
    let mut sum = vec![0; pending.indices().len() * shape.answer_bytes()];
    for answer in answers {
        xor_into(&mut sum, answer);
    }

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
