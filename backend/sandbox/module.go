package sandbox

import "context"

// Module is a validated WASM module. This version has no engine for foreign modules:
// CompileWASM answers unavailable, so no Module exists yet.
type Module struct{ info ModuleInfo }

func (*Module) runnable() {}

// ModuleInfo describes a module.
type ModuleInfo struct {
	ABI     string   `json:"abi"` // execute, command
	Exports []string `json:"exports"`
	Imports []string `json:"imports"`
	Memory  uint32   `json:"memory"` // initial pages of 64 KiB
	Tables  int      `json:"tables"`
	Size    int64    `json:"size"`
	SHA256  string   `json:"sha256"`
}

// Info describes the module.
func (m *Module) Info() ModuleInfo { return m.info }

// CompileWASM validates and compiles a module. Modules need metering, which this version
// does not have, so it answers unavailable.
func (e *Engine) CompileWASM(ctx context.Context, wasm []byte) (*Module, error) {
	return nil, failf(ClassUnavailable, "WASM modules cannot run in this version of Helix.")
}

// run executes the module under r.
func (m *Module) run(r *control) outcome {
	r.fail(failf(ClassUnavailable, "WASM modules cannot run in this version of Helix."))
	return *r.ended.Load()
}
