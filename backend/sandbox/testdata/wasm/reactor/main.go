// Reactor is a test module that exports execute instead of main. It counts its calls, which is one
// in a new instance, and requests a value from the host.
package main

import (
	"encoding/json"
	"io"
	"os"
	"unsafe"
)

//go:wasmimport helix call
func call(req unsafe.Pointer, n uint32) int32

//go:wasmimport helix read
func read(to unsafe.Pointer, n uint32) int32

var calls int

//go:wasmexport execute
func execute() {
	calls++
	in, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	req := []byte(`{"op":"state.get","key":"greeting"}`)
	n := call(unsafe.Pointer(&req[0]), uint32(len(req)))
	failed := n < 0
	if failed {
		n = -n
	}
	answer := make([]byte, n+1)
	read(unsafe.Pointer(&answer[0]), uint32(n))
	json.NewEncoder(os.Stdout).Encode(map[string]any{
		"calls": calls, "in": json.RawMessage(in), "failed": failed, "answer": json.RawMessage(answer[:n]),
	})
}

func main() {}
