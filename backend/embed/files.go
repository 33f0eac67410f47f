package embed

import (
	"io/fs"
	"reflect"
	"unsafe"
)

// bytesOf gives the content of a file, and whether it lies in the binary: then it is no copy
// and must not be written to.
func bytesOf(dir fs.FS, name string) (b []byte, inBinary bool, err error) {
	f, err := dir.Open(name)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	if s, ok := embedded(f); ok {
		return unsafe.Slice(unsafe.StringData(s), len(s)), true, nil
	}
	b, err = fs.ReadFile(dir, name)
	return b, false, err
}

// embedded gives the string that an open file of embed.FS reads from. The package only hands
// out copies, and a copy of the model would cost 28 MB for as long as it is used. Where the
// file is built otherwise than expected the answer is no, and the copy has to do.
func embedded(f fs.File) (string, bool) {
	v := reflect.ValueOf(f)
	for _, name := range []string{"f", "data"} {
		if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
			return "", false
		}
		if v = v.Elem().FieldByName(name); !v.IsValid() {
			return "", false
		}
	}
	if v.Kind() != reflect.String || v.Len() == 0 {
		return "", false
	}
	info, err := f.Stat()
	return v.String(), err == nil && info.Size() == int64(v.Len())
}
