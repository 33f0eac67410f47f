package scheduler

import (
	"context"

	"helix/backend/fault"
)

// Create makes a schedule.
func (s *Service) Create(_ context.Context, _ CreateParams) (Schedule, error) {
	return Schedule{}, fault.Unavailablef("Not in this build yet.")
}

// Update changes a schedule; it never fires a time before the edit.
func (s *Service) Update(_ context.Context, _ UpdateParams) (Schedule, error) {
	return Schedule{}, fault.Unavailablef("Not in this build yet.")
}

// Delete deletes a schedule; it can be restored for 30 days.
func (s *Service) Delete(_ context.Context, _ ScheduleParams) (DeleteResult, error) {
	return DeleteResult{}, fault.Unavailablef("Not in this build yet.")
}

// Restore takes a deletion back.
func (s *Service) Restore(_ context.Context, _ ScheduleParams) (Schedule, error) {
	return Schedule{}, fault.Unavailablef("Not in this build yet.")
}

// List lists the user's schedules.
func (s *Service) List(_ context.Context, _ ListParams) (ListResult, error) {
	return ListResult{}, fault.Unavailablef("Not in this build yet.")
}

// Get gives one schedule.
func (s *Service) Get(_ context.Context, _ ScheduleParams) (Schedule, error) {
	return Schedule{}, fault.Unavailablef("Not in this build yet.")
}

// Pause stops a schedule from firing.
func (s *Service) Pause(_ context.Context, _ ScheduleParams) (Schedule, error) {
	return Schedule{}, fault.Unavailablef("Not in this build yet.")
}

// Resume lets a schedule fire again, from its next time on.
func (s *Service) Resume(_ context.Context, _ ScheduleParams) (Schedule, error) {
	return Schedule{}, fault.Unavailablef("Not in this build yet.")
}

// TakeOver makes this device the home of a schedule.
func (s *Service) TakeOver(_ context.Context, _ ScheduleParams) (Schedule, error) {
	return Schedule{}, fault.Unavailablef("Not in this build yet.")
}

// Templates lists schedules that Helix offers.
func (s *Service) Templates(_ context.Context, _ struct{}) (TemplatesResult, error) {
	return TemplatesResult{}, fault.Unavailablef("Not in this build yet.")
}
