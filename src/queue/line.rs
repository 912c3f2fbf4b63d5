//! A first-in-first-out list whose members can leave from the middle.

use slotmap::SlotMap;

slotmap::new_key_type! {
    /// A place in a [`Line`]. A ticket outlives its place harmlessly: it is never issued twice.
    pub(crate) struct Ticket;
}

/// A doubly linked list in a slot map: joining, leaving from anywhere and serving the head cost O(1).
///
/// The slot map keeps its capacity, so a line that has once been long does not allocate again; it stores
/// nothing of those who left.
#[derive(Debug)]
pub(crate) struct Line<T> {
    places: SlotMap<Ticket, Place<T>>,
    ends: Option<Ends>,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    front: Ticket,
    back: Ticket,
}

#[derive(Debug)]
struct Place<T> {
    value: T,
    before: Option<Ticket>,
    behind: Option<Ticket>,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self {
            places: SlotMap::with_key(),
            ends: None,
        }
    }
}

impl<T> Line<T> {
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_none()
    }

    pub(crate) fn push_back(&mut self, value: T) -> Ticket {
        let before = self.ends.map(|ends| ends.back);
        let ticket = self.places.insert(Place {
            value,
            before,
            behind: None,
        });
        if let Some(before) = before {
            self.places[before].behind = Some(ticket);
        }
        self.ends = Some(Ends {
            front: self.ends.map_or(ticket, |ends| ends.front),
            back: ticket,
        });
        ticket
    }

    pub(crate) fn front(&self) -> Option<&T> {
        self.ends.map(|ends| &self.places[ends.front].value)
    }

    pub(crate) fn pop_front(&mut self) -> Option<T> {
        self.remove(self.ends?.front)
    }

    /// Takes a member out, wherever it stands; `None` when it is not in the line.
    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<T> {
        let place = self.places.remove(ticket)?;
        if let Some(before) = place.before {
            self.places[before].behind = place.behind;
        }
        if let Some(behind) = place.behind {
            self.places[behind].before = place.before;
        }
        let ends = self.ends?;
        let front = if ends.front == ticket {
            place.behind
        } else {
            Some(ends.front)
        };
        let back = if ends.back == ticket {
            place.before
        } else {
            Some(ends.back)
        };
        self.ends = front.zip(back).map(|(front, back)| Ends { front, back });
        Some(place.value)
    }

    /// The members from front to back.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Ticket, &T)> {
        let mut next = self.ends.map(|ends| ends.front);
        std::iter::from_fn(move || {
            let ticket = next?;
            let place = &self.places[ticket];
            next = place.behind;
            Some((ticket, &place.value))
        })
    }

    /// How many members stand before this one; `None` when it is not in the line.
    pub(crate) fn place(&self, ticket: Ticket) -> Option<usize> {
        let mut ahead = 0;
        let mut place = self.places.get(ticket)?;
        while let Some(before) = place.before {
            ahead += 1;
            place = &self.places[before];
        }
        Some(ahead)
    }
}
