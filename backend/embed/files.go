package embed

import (
	"io/fs"
	"reflect"
	"unsafe"
)

// bytesOf returns the content of a file. inBinary means that it is not a copy but part of the
// binary, and must not be modified.
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

// embedded returns the string that an open file of embed.FS reads from. The package itself only
// returns copies, and a copy of the model would take 28 MB. ok is false if the file is implemented
// differently than expected; the caller then uses a copy.
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
