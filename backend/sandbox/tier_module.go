package sandbox

import "encoding/json"

// wanted is a child that has loaded the module.
func (m *Module) wanted() (*wanted, *Error) {
	return nil, failf(ClassUnavailable, "WASM modules cannot run in this version of Helix.")
}

// workerModule makes the module that the parent has sent.
func (e *Engine) workerModule(info json.RawMessage, code []byte) (*Module, error) {
	return nil, failf(ClassUnavailable, "WASM modules cannot run in this version of Helix.")
}
