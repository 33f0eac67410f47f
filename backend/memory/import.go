package memory

import "context"

// ImportPreview tells what an import would bring.
func (s *Service) ImportPreview(context.Context, ImportParams) (PreviewResult, error) {
	return PreviewResult{}, unbuilt()
}

// Import starts an import and gives its job at once.
func (s *Service) Import(context.Context, ImportParams) (JobResult, error) {
	return JobResult{}, unbuilt()
}

// ImportStatus tells how an import stands.
func (s *Service) ImportStatus(context.Context, JobParams) (ImportStatus, error) {
	return ImportStatus{}, unbuilt()
}

// ImportCancel stops an import; what it has stored stays.
func (s *Service) ImportCancel(context.Context, JobParams) (ImportStatus, error) {
	return ImportStatus{}, unbuilt()
}

// Imports lists imports, newest first.
func (s *Service) Imports(context.Context, PageParams) (ImportsResult, error) {
	return ImportsResult{}, unbuilt()
}

// importState is what imports keep in a Service.
type importState struct{}

func (s *Service) initImports() {}
