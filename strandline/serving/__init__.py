"""What happens around each call that a broker or a controller serves: who may make it, who pays for it, what
the audit log says of it, and that a change is carried out to its end."""
