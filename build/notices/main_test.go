package main

import (
	"strings"
	"testing"
)

// Every module that is shipped has a license that can be shipped with it.
func TestEveryModuleHasALicense(t *testing.T) {
	t.Parallel()
	list, err := modules("../..", []string{"./app/cmd/helix", "."})
	if err != nil {
		t.Fatal(err)
	}
	var names strings.Builder
	for _, m := range list {
		names.WriteString(m.name + "\n")
		if _, err := licenses(m.dir); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
	for _, want := range []string{"Go\n", "modernc.org/sqlite ", "github.com/wailsapp/wails/v2 ", "github.com/getlantern/systray "} {
		if !strings.Contains(names.String(), want) {
			t.Errorf("%q isn't listed", want)
		}
	}
}
