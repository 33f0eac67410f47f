package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestErrorsInFilesOfAnotherSystemAreFound(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"go.mod":         "module example\n\ngo 1.26\n",
		"main.go":        "package main\n\nfunc main() { println(name(), size()) }\n",
		"main_linux.go":  "package main\n\nfunc name() string { return \"linux\" }\nfunc size() int { return 0 }\n",
		"name_darwin.go": "package main\n\nimport \"strings\"\n\nfunc name() string { return strings.ToUpper(\"darwin\") }\n",
		"size_darwin.go": "package main\n\n// #include <sys/types.h>\nimport \"C\"\n\nfunc size() int { return int(C.sizeof_off_t) }\n",
	}
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		write(name, text)
	}
	r, err := check(options{dir: dir, cgo: true}, "darwin/arm64", ".")
	if err != nil || len(r.errors) != 0 || r.cgo == 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	write("size_darwin.go", files["size_darwin.go"]+"\nvar wrong int = name()\n\nfunc missing() { nowhere(C.x) }\n")
	r, err = check(options{dir: dir, cgo: true}, "darwin/arm64", ".")
	if err != nil || len(r.errors) != 2 {
		t.Errorf("with two errors: %+v, %v", r.errors, err)
	}
	if r, err := check(options{dir: dir, cgo: true}, "linux/amd64", "."); err != nil || len(r.errors) != 0 {
		t.Errorf("another system: %+v, %v", r.errors, err)
	}
	write("name_test.go", "package main\n\nimport \"testing\"\n\nfunc TestName(t *testing.T) { t.Log(name() + 1) }\n")
	write("outside_test.go", "package main_test\n\nimport \"testing\"\n\nfunc TestSize(t *testing.T) { t.Log(size()) }\n")
	for _, with := range []bool{false, true} {
		if r, err := check(options{dir: dir, test: with}, "linux/amd64", "."); err != nil || len(r.errors) > 0 != with {
			t.Errorf("tests %v: %+v, %v", with, r.errors, err)
		}
	}
}
