package tools

type signature = BundleSignature
