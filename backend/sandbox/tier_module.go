package sandbox

import (
	"helix/backend/sandbox/worker"
)

// module fills in the job for a module.
func (j *job) module(m *Module) *Error {
	return failf(ClassUnavailable, "WASM modules cannot run in this version of Helix.")
}

// workerModule makes the module that the parent has sent.
func (e *Engine) workerModule(r *worker.Run, code []byte) (*Module, error) {
	return nil, failf(ClassUnavailable, "WASM modules cannot run in this version of Helix.")
}
