"""The draft itself: what it is, its sizes, its layout, its captured layers."""
