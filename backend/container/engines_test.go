//go:build containers

package container

import (
	"fmt"
	"os"
	"testing"

	"helix/backend/container/containertest"
)

var engines []*containertest.Engine

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		runChild()
		return
	}
	code := 1
	func() {
		for _, kind := range containertest.Kinds {
			s, err := containertest.Start(kind)
			if err != nil {
				fmt.Println(err)
				return
			}
			defer s.Stop()
			engines = append(engines, s)
		}
		code = m.Run()
	}()
	os.Exit(code)
}
