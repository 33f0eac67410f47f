package skills

import (
	"context"

	"helix/backend/fault"
)

// CreateComposite saves a new skill. A definition with errors is kept as a disabled draft.
func (s *Service) CreateComposite(_ context.Context, _ SaveParams) (Meta, error) {
	return Meta{}, fault.Unavailablef("Not in this build yet.")
}

// UpdateComposite changes a skill; a changed definition makes a version.
func (s *Service) UpdateComposite(_ context.Context, _ SaveParams) (Meta, error) {
	return Meta{}, fault.Unavailablef("Not in this build yet.")
}

// DeleteComposite deletes a skill; it can be restored for 30 days.
func (s *Service) DeleteComposite(_ context.Context, _ SkillParams) (DeleteResult, error) {
	return DeleteResult{}, fault.Unavailablef("Not in this build yet.")
}

// RestoreComposite takes a deletion back.
func (s *Service) RestoreComposite(_ context.Context, _ SkillParams) (Meta, error) {
	return Meta{}, fault.Unavailablef("Not in this build yet.")
}

// CloneComposite copies an own or public skill: private and disabled.
func (s *Service) CloneComposite(_ context.Context, _ SkillParams) (Meta, error) {
	return Meta{}, fault.Unavailablef("Not in this build yet.")
}

// GetMetadata gives one skill with its definition.
func (s *Service) GetMetadata(_ context.Context, _ SkillParams) (Meta, error) {
	return Meta{}, fault.Unavailablef("Not in this build yet.")
}

// ListComposite lists the user's skills, newest first.
func (s *Service) ListComposite(_ context.Context, _ ListParams) (ListResult, error) {
	return ListResult{}, fault.Unavailablef("Not in this build yet.")
}

// SearchPublic looks among public skills.
func (s *Service) SearchPublic(_ context.Context, _ SearchPublicParams) (SearchPublicResult, error) {
	return SearchPublicResult{}, fault.Unavailablef("Not in this build yet.")
}

// ValidateComposite checks a definition and finds everything at once.
func (s *Service) ValidateComposite(_ context.Context, _ ValidateParams) (ValidateResult, error) {
	return ValidateResult{}, fault.Unavailablef("Not in this build yet.")
}

// Catalog lists what steps can call here.
func (s *Service) Catalog(_ context.Context, _ CatalogParams) (CatalogResult, error) {
	return CatalogResult{}, fault.Unavailablef("Not in this build yet.")
}
