"""One codec a service: between protobuf messages and the values of `strandline.vocabulary`."""
