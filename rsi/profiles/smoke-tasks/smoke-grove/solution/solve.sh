#!/bin/bash
cd /app
touch one two
