"""The services of the contract. Each method reads: convert, call, convert; the rules live in the modules beside."""
