package vector

import "unsafe"

// asBytes returns the memory of floats as bytes, in the byte order of the machine, which the header
// of the file records.
func asBytes(f []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(f))), len(f)*4)
}
