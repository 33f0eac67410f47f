package skills

import (
	"slices"

	"github.com/google/uuid"

	"helix/backend/fault"
)

// userQueue holds the running runs of one user and the queue of waiting ones.
type userQueue struct {
	busy  int // slots in use
	queue []queuedRun
}

// queuedRun is a run waiting for a slot. begin is called once, on a goroutine of its own, when it gets one.
type queuedRun struct {
	run   uuid.UUID
	begin func()
}

func (s *Service) lineOf(user uuid.UUID) *userQueue {
	l := s.queues[user]
	if l == nil {
		l = &userQueue{}
		s.queues[user] = l
	}
	return l
}

// takeSlot takes a slot if one is free and the queue is empty.
func (s *Service) takeSlot(user uuid.UUID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lineOf(user)
	if l.busy >= s.limits.Live || len(l.queue) > 0 {
		return false
	}
	l.busy++
	return true
}

// mayQueue returns an error if the queue is full.
func (s *Service) mayQueue(user uuid.UUID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.lineOf(user).queue); n >= s.limits.Queued {
		return fault.Limitf("%d runs are already queued. Nothing was started.", n)
	}
	return nil
}

// queueUp queues a run for a slot. first puts it before the runs that have not started. A run that
// is already queued keeps its place.
func (s *Service) queueUp(user uuid.UUID, t queuedRun, first bool) {
	s.mu.Lock()
	l := s.lineOf(user)
	switch {
	case s.closed || slices.ContainsFunc(l.queue, func(x queuedRun) bool { return x.run == t.run }):
	case first:
		l.queue = slices.Insert(l.queue, 0, t)
	default:
		l.queue = append(l.queue, t)
	}
	s.mu.Unlock()
	s.serve(user)
}

// leaveQueue removes a run from the queue. It returns false if it was not queued.
func (s *Service) leaveQueue(user, run uuid.UUID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lineOf(user)
	at := slices.IndexFunc(l.queue, func(x queuedRun) bool { return x.run == run })
	if at < 0 {
		return false
	}
	l.queue = slices.Delete(l.queue, at, at+1)
	return true
}

// freeSlot releases a slot.
func (s *Service) freeSlot(user uuid.UUID) {
	s.mu.Lock()
	if l := s.lineOf(user); l.busy > 0 {
		l.busy--
	}
	s.mu.Unlock()
	s.serve(user)
}

// serve starts queued runs while there are free slots.
func (s *Service) serve(user uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lineOf(user)
	for !s.closed && len(l.queue) > 0 && l.busy < s.limits.Live {
		t := l.queue[0]
		l.queue = slices.Delete(l.queue, 0, 1)
		l.busy++
		s.background("begin a queued run", t.begin)
	}
	if l.busy == 0 && len(l.queue) == 0 {
		delete(s.queues, user)
	}
}
