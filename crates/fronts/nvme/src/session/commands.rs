//! The commands under way on a connection, and those of them that wait until the budget has room for their data.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::request::{Request, Work};
use crate::budget::Budget;

/// A command under way.
#[derive(Debug)]
struct UnderWay {
    request: Request,
    /// Bytes of the budget that it holds.
    held: usize,
}

/// The commands under way.
#[derive(Debug, Default)]
pub struct Commands {
    by_id: FxHashMap<u16, UnderWay>,
    /// Those that wait for the budget, in order.
    waiting: VecDeque<u16>,
}

impl Commands {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether one has this identifier.
    pub fn contains(&self, id: u16) -> bool {
        self.by_id.contains_key(&id)
    }

    /// What a command requests.
    pub fn get(&self, id: u16) -> Option<&Request> {
        self.by_id.get(&id).map(|under_way| &under_way.request)
    }

    /// Adds one, which holds this much of the budget.
    pub fn add(&mut self, request: Request, held: usize) {
        let id = request.id();
        let other = self.by_id.insert(id, UnderWay { request, held });
        assert!(other.is_none(), "two commands under way are called {id}: {other:?}");
    }

    /// A command is done. Returns what it requested, and the bytes of the budget that it held.
    pub fn end(&mut self, id: u16) -> Option<(Request, usize)> {
        debug_assert!(!self.waiting.contains(&id), "command {id} ends while it waits for the budget");
        self.by_id.remove(&id).map(|UnderWay { request, held }| (request, held))
    }

    /// The data that a command waits for hold its part of the budget from now on, although it ends. Returns that part.
    pub fn leave_budget(&mut self, id: u16) -> usize {
        self.by_id.get_mut(&id).map_or(0, |under_way| std::mem::take(&mut under_way.held))
    }

    // -- those that wait for the budget -------------------------------------------------------------------------

    /// A command waits until the budget has room for its data.
    pub fn wait(&mut self, id: u16) {
        debug_assert!(self.contains(id), "command {id} waits for the budget, but is not under way");
        self.waiting.push_back(id);
    }

    /// The first that waits, if the budget has room for its data, which it holds from now on.
    pub fn admit(&mut self, budget: &mut Budget) -> Option<&Request> {
        let id = *self.waiting.front()?;
        let under_way = self.by_id.get_mut(&id)?;
        let bytes = under_way.request.transfer.bytes();
        if !budget.may_hold(bytes) {
            return None;
        }
        self.waiting.pop_front();
        assert_eq!(under_way.held, 0, "command {id} holds a part of the budget, and waits for it");
        budget.hold(bytes);
        under_way.held = bytes;
        Some(&under_way.request)
    }

    /// A command no longer waits for the budget; false if it did not.
    pub fn withdraw(&mut self, id: u16) -> bool {
        let at = self.waiting.iter().position(|&waiting| waiting == id);
        at.and_then(|at| self.waiting.remove(at)).is_some()
    }

    // -- invariants ---------------------------------------------------------------------------------------------

    /// Bytes of the budget that they hold.
    pub fn held(&self) -> usize {
        self.by_id.values().map(|under_way| under_way.held).sum()
    }

    /// Checks that each command waits in one place, of which `elsewhere` are those that are not here; and none if somebody else
    /// answers it.
    pub fn assert_places(&self, elsewhere: impl Iterator<Item = u16>) {
        let places: Vec<u16> = self.waiting.iter().copied().chain(elsewhere).collect();
        for (id, UnderWay { request, .. }) in &self.by_id {
            let count = places.iter().filter(|place| *place == id).count();
            assert!(
                count == 1 || count == 0 && request.is_answered_elsewhere(),
                "command {id} waits in {count} places: {request:?}"
            );
        }
        let unknown = places.iter().find(|id| !self.contains(**id));
        assert_eq!(unknown, None, "a command waits that is not under way");
    }

    /// Aborts under way.
    pub fn aborts(&self) -> usize {
        let is_abort = |under_way: &&UnderWay| matches!(under_way.request.work, Work::Abort(_));
        self.by_id.values().filter(is_abort).count()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::blocks::Blocks;
    use crate::budget::BUDGET_BYTES;
    use crate::io::{IoCommand, Transfer};
    use crate::namespaces::View;
    use crate::wire::command::Submission;

    fn read(id: u16, bytes: usize) -> Request {
        let command = Submission { id: id.into(), ..Submission::default() };
        let target = *View::empty().records();
        let work = Work::Io(target, IoCommand::Read(Blocks { first: 0, count: 1 }));
        Request::of(command, work, Transfer::ToHost(bytes as u32))
    }

    #[test]
    fn commands_get_their_part_of_the_budget_in_the_order_in_which_they_came() {
        let (mut commands, mut budget) = (Commands::default(), Budget::new(&Arc::default()));
        for (id, bytes) in [(1, BUDGET_BYTES / 2), (2, BUDGET_BYTES / 2), (3, BUDGET_BYTES), (4, 1), (5, 1)] {
            commands.add(read(id, bytes), 0);
            commands.wait(id);
        }
        let mut admitted = |commands: &mut Commands| commands.admit(&mut budget).map(|request| request.id());
        assert_eq!((admitted(&mut commands), admitted(&mut commands)), (Some(1), Some(2)));
        assert_eq!(admitted(&mut commands), None, "the third has no room, and the fourth comes after it");
        assert!(commands.withdraw(3) && !commands.withdraw(3) && !commands.withdraw(1));
        assert_eq!(admitted(&mut commands), None);
        let (_, held) = commands.end(1).unwrap();
        budget.release(held);
        let mut admitted = |commands: &mut Commands| commands.admit(&mut budget).map(|request| request.id());
        assert_eq!((admitted(&mut commands), admitted(&mut commands)), (Some(4), Some(5)));
        assert_eq!(commands.leave_budget(2), BUDGET_BYTES / 2);
        assert_eq!(commands.end(2).unwrap().1, 0);
        assert_eq!((commands.held(), budget.held()), (2, 2 + BUDGET_BYTES / 2));
    }
}
