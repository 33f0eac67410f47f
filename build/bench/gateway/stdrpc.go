package main

import (
	"fmt"
	"io"
	"net"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"strings"

	"helixbench/figures"
)

// Echo is the service for the standard library's peer.
type Echo struct{}

// Echo returns its argument.
func (Echo) Echo(p *EchoParams, r *EchoParams) error { *r = *p; return nil }

func rpcServe() {
	s := rpc.NewServer()
	figures.Check(s.Register(Echo{}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	figures.Check(err)
	fmt.Println(l.Addr())
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.ServeCodec(jsonrpc.NewServerCodec(c))
		}
	}()
	io.Copy(io.Discard, os.Stdin) //nolint:errcheck // only its end matters
}

func rpcClient(args []string) {
	c, err := jsonrpc.Dial("tcp", args[0])
	figures.Check(err)
	defer c.Close()
	p := EchoParams{strings.Repeat("y", 188)}
	print(load(args[2], func() {
		var r EchoParams
		figures.Check(c.Call("Echo.Echo", &p, &r))
	}))
}
