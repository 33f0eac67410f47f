package transcribe

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"helix/backend/fault"
)

// runProgram runs a recognizer in a folder, without the secrets of the environment. Its end by ctx
// is reported as ctx's error.
func runProgram(ctx context.Context, name, program, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	cmd.Dir = dir
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return failure(Failed, fault.Unavailablef("%s stopped with an error.", name).WithCause(fmt.Errorf("%w: %.500s", err, out)))
	}
	return nil
}
