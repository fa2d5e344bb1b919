module interop/golang

go 1.21
