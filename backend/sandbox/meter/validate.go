package meter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// validateDeadline limits the compilation inside Validate.
const validateDeadline = 60 * time.Second

// Features are the features that WebAssembly modules may use: the second version of the
// specification (sign extension, saturating conversion, multi-value, bulk memory, reference types,
// SIMD, mutable globals) and nothing newer.
const Features = api.CoreFeaturesV2

// Validate returns an error if wasm must not be instrumented and run. It checks the form of every
// instruction, the allowed features, the imports, the limits, reserved export names, and does the
// full type check of the specification on the untouched module. Errors are *Error.
func Validate(wasm []byte, l ModuleLimits) error {
	m, err := parse(wasm, l, true)
	if err == nil {
		err = m.scanAll()
	}
	if err == nil {
		err = m.complexity()
	}
	if err == nil {
		err = m.reserved()
	}
	if err == nil {
		err = typeCheck(m.bare())
	}
	if err != nil {
		return err
	}
	return nil
}

// typeCheck compiles the untouched module. The interpreter is the cheapest of wazero's engines to
// compile for, and it does the same validation.
func typeCheck(wasm []byte) *Error {
	ctx, cancel := context.WithTimeout(context.Background(), validateDeadline)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("the compiler gave up: %v", p)
			}
		}()
		rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().
			WithCoreFeatures(Features).WithDebugInfoEnabled(false))
		_, err := rt.CompileModule(ctx, wasm)
		done <- errors.Join(err, rt.Close(context.Background()))
	}()
	select {
	case err := <-done:
		if err != nil {
			return &Error{Feature: featInvalid, Message: err.Error()}
		}
		return nil
	case <-ctx.Done():
		return &Error{Feature: featLimits, Message: "the module takes longer than 60 s to check"}
	}
}
