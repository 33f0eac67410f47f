package vector

import "unsafe"

// asBytes looks at floats as bytes, in the byte order of the machine; the file's header says
// which that was.
func asBytes(f []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(f))), len(f)*4)
}
