//go:build !amd64 && !arm64

package container

import "embed"

// embedded is empty: there is no init process for this architecture.
var embedded embed.FS
