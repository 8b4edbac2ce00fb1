//! The controller's side of an authentication. The host sends and receives. A message at the wrong time, or an invalid one,
//! ends the authentication: the next message to the host says why, and is the last.

use std::sync::Arc;

use zerocopy::{FromBytes, IntoBytes};

use super::group::{Group, Share};
use super::hash::Hash;
use super::hosts::Secrets;
use super::proof::{Parties, Question};
use crate::wire::authentication::{Challenge, Failure, Head, Negotiate, Reason, Reply, Success1, id, kind};

/// What host and controller agreed on, and the challenge to the host.
struct Agreed {
    transaction: u16,
    hash: Hash,
    sequence: u32,
    challenge: Vec<u8>,
    share: Option<Share>,
    group: Group,
}

/// What comes next.
enum Step {
    /// The host offers hashes and groups.
    Negotiate,
    /// The host receives its challenge.
    Challenge(Agreed),
    /// The host proves itself.
    Reply(Agreed),
    /// The host receives the success message, with our proof if it asked for one.
    Success1(u16, Hash, Option<Vec<u8>>),
    /// The host says whether it is satisfied.
    Success2(u16),
    /// The host receives the reason for the failure.
    Failure1(u16, Reason),
    /// Nothing.
    Over,
}

/// An authentication of one queue.
pub struct Exchange {
    parties: Parties,
    secrets: Arc<Secrets>,
    step: Step,
    is_authenticated: bool,
}

/// Random bytes from the system. Nothing secure can be done without them.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system gives random bytes");
    bytes
}

impl Exchange {
    /// An authentication that has not begun.
    pub fn new(parties: Parties, secrets: Arc<Secrets>) -> Exchange {
        Exchange { parties, secrets, step: Step::Negotiate, is_authenticated: false }
    }

    /// Whether the host has proved who it is.
    pub fn is_authenticated(&self) -> bool {
        self.is_authenticated
    }

    /// Whether it failed and the host knows: the queue ends.
    pub fn has_failed(&self) -> bool {
        !self.is_authenticated && matches!(self.step, Step::Over)
    }

    /// Handles a message from the host.
    pub fn take(&mut self, message: &[u8]) {
        let Ok((head, _)) = Head::read_from_prefix(message) else { return self.fail(0, Reason::Payload) };
        let transaction = head.transaction.get();
        let step = std::mem::replace(&mut self.step, Step::Over);
        let next = match (step, head.kind, head.id) {
            (Step::Negotiate, kind::COMMON, id::NEGOTIATE) => negotiate(message),
            // a host may prove itself again
            (Step::Over, kind::COMMON, id::NEGOTIATE) if self.is_authenticated => negotiate(message),
            (Step::Reply(agreed), kind::CHAP, id::REPLY) if transaction == agreed.transaction => {
                self.check(&agreed, message)
            }
            (Step::Success2(ours), kind::CHAP, id::SUCCESS2) if transaction == ours => {
                self.is_authenticated = true;
                Ok(Step::Over)
            }
            // the host gives up, which needs no answer
            (Step::Success2(_) | Step::Reply(_), kind::COMMON, id::FAILURE2) => {
                self.is_authenticated = false;
                Ok(Step::Over)
            }
            _ => Err(Reason::Message),
        };
        match next {
            Ok(next) => self.step = next,
            Err(reason) => self.fail(transaction, reason),
        }
    }

    /// The next message to the host.
    pub fn give(&mut self) -> Vec<u8> {
        match std::mem::replace(&mut self.step, Step::Over) {
            Step::Challenge(agreed) => {
                let public = agreed.share.as_ref().map_or(&[][..], |share| &share.public);
                let chosen = (agreed.hash.id(), agreed.group.id());
                let bytes = (agreed.challenge.len(), public.len());
                assert_eq!(
                    bytes.0,
                    agreed.hash.bytes(),
                    "a challenge is as long as a proof by {:?}",
                    agreed.hash
                );
                let header = Challenge::new(agreed.transaction, chosen, agreed.sequence, bytes);
                let message = [header.as_bytes(), &agreed.challenge, public].concat();
                self.step = Step::Reply(agreed);
                message
            }
            Step::Success1(transaction, hash, proof) => {
                let bytes = proof.as_ref().map_or(hash.bytes(), Vec::len);
                assert_eq!(
                    bytes,
                    hash.bytes(),
                    "the proof to the host has another length than {hash:?} gives"
                );
                let header = Success1::new(transaction, hash.bytes(), proof.is_some());
                match &proof {
                    // the host is satisfied with us, or it would have asked
                    None => self.is_authenticated = true,
                    Some(_) => self.step = Step::Success2(transaction),
                }
                [header.as_bytes(), &proof.unwrap_or_default()].concat()
            }
            Step::Failure1(transaction, reason) => failure(transaction, reason),
            // there is nothing to receive now
            _ => {
                self.is_authenticated = false;
                failure(0, Reason::Message)
            }
        }
    }

    fn fail(&mut self, transaction: u16, reason: Reason) {
        self.is_authenticated = false;
        self.step = Step::Failure1(transaction, reason);
    }

    /// Checks the host's proof, and proves that we know our secret if the host asks.
    fn check(&self, agreed: &Agreed, message: &[u8]) -> Result<Step, Reason> {
        let (reply, rest) = Reply::read_from_prefix(message).map_err(|_| Reason::Payload)?;
        let (hash, share_bytes) = (agreed.hash, usize::from(reply.share_bytes.get()));
        let hash_bytes = hash.bytes();
        if usize::from(reply.hash_bytes) != hash_bytes || rest.len() < 2 * hash_bytes + share_bytes {
            return Err(Reason::Payload);
        }
        let (proof, rest) = rest.split_at(hash_bytes);
        let (challenge, rest) = rest.split_at(hash_bytes);
        let key = match &agreed.share {
            None if share_bytes == 0 => None,
            None => return Err(Reason::Payload),
            Some(share) => Some(share.agree(&rest[..share_bytes]).ok_or(Reason::Group)?),
        };
        let question = |challenge: &[u8], sequence| Question {
            hash,
            transaction: agreed.transaction,
            sequence,
            challenge: Question::bind(hash, challenge, key.as_deref()),
        };
        let asked = question(&agreed.challenge, agreed.sequence);
        if !asked.is_proof_of_host(&self.secrets.host.key(&self.parties.host), &self.parties, proof) {
            return Err(Reason::Failed);
        }
        if reply.has_challenge & 1 == 0 {
            return Ok(Step::Success1(agreed.transaction, hash, None));
        }
        // the host must not send our own challenge back to us
        let secret = self.secrets.controller.as_ref().filter(|_| challenge != agreed.challenge);
        let secret = secret.ok_or(Reason::Failed)?;
        let key_of_ours = secret.key(&self.parties.subsystem);
        let proof = question(challenge, reply.sequence.get()).controller_proof(&key_of_ours, &self.parties);
        Ok(Step::Success1(agreed.transaction, hash, Some(proof)))
    }
}

/// Chooses from what the host offers, and makes a challenge that has never been used before.
fn negotiate(message: &[u8]) -> Result<Step, Reason> {
    let (offer, _) = Negotiate::read_from_prefix(message).map_err(|_| Reason::Payload)?;
    if offer.secure_channel != 0 {
        return Err(Reason::SecureChannel);
    }
    if offer.protocols == 0 || offer.protocol != 1 {
        return Err(Reason::Protocol);
    }
    let hashes = offer.hashes.get(..offer.hash_count.into()).ok_or(Reason::Payload)?;
    let groups = offer.groups.get(..offer.group_count.into()).ok_or(Reason::Payload)?;
    let hash = hashes.iter().find_map(|&id| Hash::of(id)).ok_or(Reason::Hash)?;
    let group = Group::ALL.into_iter().find(|group| groups.contains(&group.id())).ok_or(Reason::Group)?;
    Ok(Step::Challenge(Agreed {
        transaction: offer.head.transaction.get(),
        hash,
        // 0 has a special meaning
        sequence: u32::from_le_bytes(random()).max(1),
        challenge: random::<64>()[..hash.bytes()].to_vec(),
        share: group.share(&random()),
        group,
    }))
}

fn failure(transaction: u16, reason: Reason) -> Vec<u8> {
    Failure::new(id::FAILURE1, transaction, reason as u8).as_bytes().to_vec()
}
