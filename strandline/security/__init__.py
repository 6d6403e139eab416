"""The words of security, and what follows from them: principals, ACLs, and who may do what. Pure."""
