package memory

import "context"

// UpsertChunks makes a document what the caller says it is now; parts that did not change
// keep their ids and vectors.
func (s *Service) UpsertChunks(context.Context, UpsertParams) (UpsertResult, error) {
	return UpsertResult{}, unbuilt()
}

// ListDocuments lists documents, newest change first.
func (s *Service) ListDocuments(context.Context, PageParams) (DocumentsResult, error) {
	return DocumentsResult{}, unbuilt()
}

// Document gives parts of one document.
func (s *Service) Document(context.Context, DocumentViewParams) (DocumentView, error) {
	return DocumentView{}, unbuilt()
}

// DeleteDocument moves a document to the trash.
func (s *Service) DeleteDocument(context.Context, DocumentParams) (CountResult, error) {
	return CountResult{}, unbuilt()
}
