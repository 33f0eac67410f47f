package memory

import (
	"context"

	"github.com/google/uuid"

	"helix/backend/fault"
)

func unbuilt() error { return fault.Unavailablef("This is being built.") }

// seal gives the form in which a text is stored.
func (s *Service) seal(_, _ string, _ uuid.UUID, text string) (any, error) { return text, nil }

// open reads what seal has made.
func (s *Service) open(_, _ string, _ uuid.UUID, stored []byte) (string, error) {
	return string(stored), nil
}

// Add stores one memory.
func (s *Service) Add(context.Context, AddParams) (AddResult, error) { return AddResult{}, unbuilt() }

// AddBatch stores several; one that is refused does not stop the others.
func (s *Service) AddBatch(context.Context, AddBatchParams) (AddBatchResult, error) {
	return AddBatchResult{}, unbuilt()
}

// Get gives one memory.
func (s *Service) Get(context.Context, GetParams) (Item, error) { return Item{}, unbuilt() }

// List gives memories by page.
func (s *Service) List(context.Context, ListParams) (ListResult, error) {
	return ListResult{}, unbuilt()
}

// Update changes a memory if it is still at the version named.
func (s *Service) Update(context.Context, UpdateParams) (Item, error) { return Item{}, unbuilt() }

// Delete moves memories to the trash.
func (s *Service) Delete(context.Context, IDsParams) (CountResult, error) {
	return CountResult{}, unbuilt()
}

// Restore brings memories back from the trash.
func (s *Service) Restore(context.Context, IDsParams) (CountResult, error) {
	return CountResult{}, unbuilt()
}

// Purge removes memories for good.
func (s *Service) Purge(context.Context, IDsParams) (CountResult, error) {
	return CountResult{}, unbuilt()
}

// Undo takes an act back.
func (s *Service) Undo(context.Context, UndoParams) (CountResult, error) {
	return CountResult{}, unbuilt()
}

// Pin pins or unpins memories.
func (s *Service) Pin(context.Context, PinParams) (ItemsResult, error) {
	return ItemsResult{}, unbuilt()
}

// SetSalience sets the tier of memories.
func (s *Service) SetSalience(context.Context, SalienceParams) (ItemsResult, error) {
	return ItemsResult{}, unbuilt()
}

// Tag adds and removes tags.
func (s *Service) Tag(context.Context, TagParams) (ItemsResult, error) {
	return ItemsResult{}, unbuilt()
}

// History lists what a memory said before.
func (s *Service) History(context.Context, HistoryParams) (HistoryResult, error) {
	return HistoryResult{}, unbuilt()
}

// Conversations lists conversations.
func (s *Service) Conversations(context.Context, PageParams) (ConversationsResult, error) {
	return ConversationsResult{}, unbuilt()
}

// Conversation gives turns of one conversation.
func (s *Service) Conversation(context.Context, ConversationParams) (ConversationResult, error) {
	return ConversationResult{}, unbuilt()
}

// DeleteConversation moves a conversation to the trash.
func (s *Service) DeleteConversation(context.Context, ConversationIDParams) (CountResult, error) {
	return CountResult{}, unbuilt()
}

// SetUntrusted says whether what came from a source is quoted as foreign text.
func (s *Service) SetUntrusted(context.Context, TrustParams) (CountResult, error) {
	return CountResult{}, unbuilt()
}

// Stats counts what there is.
func (s *Service) Stats(context.Context, struct{}) (Stats, error) { return Stats{}, unbuilt() }

// Export writes what the filters choose into a blob.
func (s *Service) Export(context.Context, ExportParams) (ExportResult, error) {
	return ExportResult{}, unbuilt()
}

// storeState is what the keeping of memories keeps in a Service.
type storeState struct{}

func (s *Service) initStore() {}
